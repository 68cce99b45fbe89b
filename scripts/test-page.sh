#!/usr/bin/env bash
# The report page's own tests: types, unit tests, and the page opened and used in a headless Chromium. Leaves a screenshot of every section
# in build/page/screenshots for a person to look at.
#   scripts/test-page.sh
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${SMARTMINE_CHROMIUM:-}" ] && ! command -v chromium >/dev/null && ! scripts/setup.sh --page; then
  # Ubuntu 24.04 packages none.
  echo "test-page: no Chromium could be installed, so nothing is tried in a browser; name one by SMARTMINE_CHROMIUM" >&2
fi
folder=build/page
mkdir -p "$folder"
# Beside the sources: npm writes where it works.
tar -C report --exclude=node_modules --exclude=dist --exclude=screenshots -cf - . | tar -C "$folder" -xf -
cd "$folder"
npm ci --no-audit --no-fund || { sleep 10; npm ci --no-audit --no-fund; }  # networks have bad moments
npm test
