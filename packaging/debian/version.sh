#!/bin/sh
# Prints what dpkg is told of VERSION, as `git describe --tags --dirty` has it,
# so that later commits are upgrades: v1.2.0 is 1.2.0, v1.2.0-rc1 comes before it
# as 1.2.0~rc1, the 4th commit after it is 1.2.0+4.0123abc. Where there is no tag
# the time of the commit has to do (SOURCE_DATE_EPOCH, seconds).
set -eu
case $VERSION in
v[0-9]*) echo "$VERSION" | sed -E 's/^v//; s/-dirty$/+dirty/; s/-([0-9]+)-g([0-9a-f]+)/+\1.\2/; s/-/~/g' ;;
*) echo "0~$(TZ=UTC date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$COMMIT" ;;
esac
