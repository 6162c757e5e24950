// One table for all lists: columns with their own cells, headings that sort, a caption for those who cannot see it.
import type { ComponentChildren } from "preact";

export interface Column<Row> {
  key: string;
  title: string;
  cell: (row: Row) => ComponentChildren;
  isNumber?: boolean;
  /** The heading is for screen readers: what stands below says what it is. */
  isTitleHidden?: boolean;
  canSort?: boolean;
  isRowHeading?: boolean;
}

export interface TableProps<Row> {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  sort?: string;
  isUp?: boolean;
  onSort?: (key: string) => void;
  /** A heading above the rows that share it. */
  groupOf?: (row: Row) => string;
}

export function Table<Row>({ caption, columns, rows, rowKey, sort, isUp, onSort, groupOf }: TableProps<Row>) {
  const body: ComponentChildren[] = [];
  let group: string | undefined;
  for (const row of rows) {
    const own = groupOf?.(row);
    if (own !== undefined && own !== group) {
      group = own;
      body.push(
        <tr key={`group ${own}`} class="group">
          <th colSpan={columns.length} scope="colgroup">{own || "–"}</th>
        </tr>,
      );
    }
    body.push(
      <tr key={rowKey(row)}>
        {columns.map((column) =>
          column.isRowHeading ? (
            <th key={column.key} scope="row">{column.cell(row)}</th>
          ) : (
            <td key={column.key} class={column.isNumber ? "number" : ""}>{column.cell(row)}</td>
          ),
        )}
      </tr>,
    );
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.key}
                scope="col"
                class={column.isNumber ? "number" : ""}
                aria-sort={sort === column.key ? (isUp ? "ascending" : "descending") : undefined}
              >
                {column.canSort && onSort ? (
                  <button type="button" class="sort" onClick={() => onSort(column.key)}>
                    {column.title}
                    <span aria-hidden="true">{sort === column.key ? (isUp ? " ▲" : " ▼") : ""}</span>
                  </button>
                ) : (
                  <span class={column.isTitleHidden ? "hidden" : ""}>{column.title}</span>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{body}</tbody>
      </table>
    </div>
  );
}
