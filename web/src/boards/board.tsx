// A position as a drawing, with labelled coordinates. Pieces differ by shape as well as by colour; a screen reader gets
// the position in words. To add a game: a drawing of its cells here, and its reader in `ludus.games.board_frames`.

export interface Frame {
  ply: number;
  moves: [number, number, string][];
  cells: string;
  text: string;
}

export interface BoardData {
  kind: string;
  rows: number;
  columns: number;
  frames: Frame[];
  problem: string;
}

export interface BoardProps {
  kind: string;
  rows: number;
  columns: number;
  cells: string;
  /** The position before, to mark what has changed. */
  before?: string | undefined;
  /** Asked with a cell (row by row from the top); only where somebody may play there. */
  onCell?: ((cell: number) => void) | undefined;
  /** Cells where somebody may play. */
  open?: ReadonlySet<number> | undefined;
}

const SIZE = 40;
const MARGIN = 24;
const PIECES: Record<string, string> = { k: "♚", q: "♛", r: "♜", b: "♝", n: "♞", p: "♟" };
const PIECE_NAMES: Record<string, string> = { k: "king", q: "queen", r: "rook", b: "bishop", n: "knight", p: "pawn" };
const GO_COLUMNS = "ABCDEFGHJKLMNOPQRSTUVWXYZ";
const MOST_TOLD = 120;

export function Board(props: BoardProps) {
  const { kind, rows, columns, cells, before, onCell } = props;
  const all = Array.from({ length: rows * columns }, (_, at) => at);
  return (
    <svg class={`board ${kind}`} viewBox={`0 0 ${columns * SIZE + MARGIN} ${rows * SIZE + MARGIN}`} role="group" aria-label={inWords(props)}>
      <rect class="ground" x={MARGIN} y={0} width={columns * SIZE} height={rows * SIZE} />
      {kind === "go" ? <Lines rows={rows} columns={columns} /> : all.map((at) => <Square key={at} at={at} columns={columns} kind={kind} />)}
      {all.map((at) => (
        <Piece key={at} kind={kind} sign={cells[at] ?? "."} x={xOf(at, columns)} y={yOf(at, columns)} isNew={before !== undefined && before[at] !== cells[at]} />
      ))}
      <Labels kind={kind} rows={rows} columns={columns} />
      {onCell && targets(props, all).map(({ at, isNamed }) => <Target key={at} at={at} isNamed={isNamed} board={props} onCell={onCell} />)}
    </svg>
  );
}

const xOf = (at: number, columns: number) => MARGIN + (at % columns) * SIZE + SIZE / 2;
const yOf = (at: number, columns: number) => Math.floor(at / columns) * SIZE + SIZE / 2;

function Square({ at, columns, kind }: { at: number; columns: number; kind: string }) {
  const isDark = kind === "chess" && (Math.floor(at / columns) + at) % 2 === 1;
  return <rect class={isDark ? "square dark" : "square"} x={xOf(at, columns) - SIZE / 2} y={yOf(at, columns) - SIZE / 2} width={SIZE} height={SIZE} />;
}

function Lines({ rows, columns }: { rows: number; columns: number }) {
  const [left, right, bottom] = [xOf(0, columns), xOf(columns - 1, columns), rows * SIZE - SIZE / 2];
  return (
    <g class="lines">
      {Array.from({ length: rows }, (_, row) => <line key={`r${row}`} x1={left} x2={right} y1={row * SIZE + SIZE / 2} y2={row * SIZE + SIZE / 2} />)}
      {Array.from({ length: columns }, (_, at) => <line key={`c${at}`} x1={xOf(at, columns)} x2={xOf(at, columns)} y1={SIZE / 2} y2={bottom} />)}
    </g>
  );
}

function Piece({ kind, sign, x, y, isNew }: { kind: string; sign: string; x: number; y: number; isNew: boolean }) {
  return (
    <g>
      {isNew && <rect class="new" x={x - SIZE / 2 + 2} y={y - SIZE / 2 + 2} width={SIZE - 4} height={SIZE - 4} />}
      {sign !== "." && sign !== "" && <Drawn kind={kind} sign={sign} x={x} y={y} />}
    </g>
  );
}

function Drawn({ kind, sign, x, y }: { kind: string; sign: string; x: number; y: number }) {
  if (kind === "chess") {
    const isWhite = sign === sign.toUpperCase();
    return <text class={`piece ${isWhite ? "white" : "black"}`} x={x} y={y + 12} aria-hidden="true">{PIECES[sign.toLowerCase()] ?? sign}</text>;
  }
  const isFirst = sign === "x";
  if (kind === "tic_tac_toe" && isFirst) return <path class="cross" d={`M${x - 11} ${y - 11}L${x + 11} ${y + 11}M${x - 11} ${y + 11}L${x + 11} ${y - 11}`} />;
  return (
    <>
      <circle class={isFirst ? "stone first" : "stone second"} cx={x} cy={y} r={kind === "tic_tac_toe" ? 12 : SIZE / 2 - 5} />
      {!isFirst && kind === "connect_four" && <circle class="ring" cx={x} cy={y} r={7} />}
    </>
  );
}

function Labels({ kind, rows, columns }: { kind: string; rows: number; columns: number }) {
  return (
    <g class="labels" aria-hidden="true">
      {Array.from({ length: rows }, (_, row) => <text key={`r${row}`} x={MARGIN / 2} y={row * SIZE + SIZE / 2 + 4}>{rowName(kind, row, rows)}</text>)}
      {Array.from({ length: columns }, (_, at) => <text key={`c${at}`} x={xOf(at, columns)} y={rows * SIZE + 16}>{columnName(kind, at)}</text>)}
    </g>
  );
}

/** Cells where somebody may play. Of cells that mean the same move (a column), one is reached by key. */
function targets({ kind, rows, columns, open }: BoardProps, all: readonly number[]): { at: number; isNamed: boolean }[] {
  const named = new Set<string>();
  return all
    .filter((at) => open?.has(at))
    .map((at) => {
      const name = cellName(kind, at, rows, columns);
      const isNamed = !named.has(name);
      named.add(name);
      return { at, isNamed };
    });
}

/** SVG knows `tabindex`, not `tabIndex`. */
function Target({ at, isNamed, board, onCell }: { at: number; isNamed: boolean; board: BoardProps; onCell: (cell: number) => void }) {
  const named = isNamed ? { role: "button", tabindex: 0, "aria-label": `play ${cellName(board.kind, at, board.rows, board.columns)}` } as const : {};
  return (
    <rect
      class="target"
      x={xOf(at, board.columns) - SIZE / 2 + 1}
      y={yOf(at, board.columns) - SIZE / 2 + 1}
      width={SIZE - 2}
      height={SIZE - 2}
      {...named}
      onClick={() => onCell(at)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        onCell(at);
      }}
    />
  );
}

function rowName(kind: string, row: number, rows: number): string {
  if (kind === "chess" || kind === "go") return String(rows - row);
  return kind === "othello" ? String(row + 1) : String(row);
}

function columnName(kind: string, at: number): string {
  if (kind === "go") return GO_COLUMNS[at] ?? "";
  return kind === "chess" || kind === "othello" ? String.fromCharCode(97 + at) : String(at);
}

export function cellName(kind: string, at: number, rows: number, columns: number): string {
  const [row, column] = [Math.floor(at / columns), at % columns];
  if (kind === "connect_four") return `column ${column}`;
  if (kind === "tic_tac_toe") return `row ${row}, column ${column}`;
  return `${columnName(kind, column)}${rowName(kind, row, rows)}`;
}

/** The position for those who do not see it. */
function inWords({ kind, rows, columns, cells }: BoardProps): string {
  const told: string[] = [];
  for (let at = 0; at < cells.length && told.length < MOST_TOLD; at++) {
    const sign = cells[at] ?? ".";
    if (sign === ".") continue;
    told.push(`${pieceName(kind, sign)} at ${kind === "connect_four" ? `row ${Math.floor(at / columns)} ` : ""}${cellName(kind, at, rows, columns)}`);
  }
  return told.length ? `Board: ${told.join(", ")}` : "Board: empty";
}

function pieceName(kind: string, sign: string): string {
  if (kind !== "chess") return sign === "x" ? "first" : "second";
  return `${sign === sign.toUpperCase() ? "white" : "black"} ${PIECE_NAMES[sign.toLowerCase()] ?? sign}`;
}
