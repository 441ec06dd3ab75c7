#!/bin/sh
# Makes the files of a release: dist.sh DIR ARCH..., each of amd64, arm64, armv7.
# VERSION, COMMIT, LDFLAGS, TAGS and SOURCE_DATE_EPOCH (seconds) say of which;
# `make dist` sets them. The same commit gives the same bytes, with the same Go and
# dpkg.
set -eu
umask 022
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

export LC_ALL=C TZ=UTC SOURCE_DATE_EPOCH
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false -tags=$TAGS"
# Said here because distributions differ in their default.
export DPKG_DEB_COMPRESSOR_TYPE="${DPKG_DEB_COMPRESSOR_TYPE:-xz}"

deb_version=$(packaging/debian/version.sh)

# seal gives a tree the modes and times that do not depend on who builds when.
seal() {
	chmod -R u=rwX,go=rX "$1"
	find "$1" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}

rm -rf "$out"/linux_* "$out"/holdfast_* "$out"/SHA256SUMS "$out"/data
mkdir -m 700 "$out/data" # of the image; see Dockerfile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
	cat packaging/holdfast.toml.head
	go run ./cmd/holdfast config example
} >"$work/holdfast.toml"

for arch; do
	case $arch in
	amd64 | arm64) goarch=$arch deb_arch=$arch ;;
	armv7) goarch=arm deb_arch=armhf ;;
	*) echo "dist.sh: unknown architecture $arch" >&2 && exit 2 ;;
	esac

	tree=$out/linux_$arch
	mkdir "$tree"
	GOOS=linux GOARCH=$goarch GOARM=7 go build -ldflags "-s -w $LDFLAGS" -o "$tree/holdfast" ./cmd/holdfast
	cp -R README.md CHANGELOG.md LICENSE docs packaging/holdfast.service packaging/holdfast.sysusers packaging/holdfast.logrotate "$work/holdfast.toml" "$tree"
	seal "$tree"
	name=holdfast_${VERSION#v}_linux_$arch
	tar --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --transform "s,^\.,$name," -C "$tree" -cf - . |
		gzip -n >"$out/$name.tar.gz"

	root=$work/$arch
	install -D -m 755 "$tree/holdfast" "$root/usr/bin/holdfast"
	install -D -m 644 "$tree/holdfast.service" "$root/usr/lib/systemd/system/holdfast.service"
	install -D -m 644 "$tree/holdfast.sysusers" "$root/usr/lib/sysusers.d/holdfast.conf"
	install -D -m 644 "$tree/holdfast.logrotate" "$root/etc/logrotate.d/holdfast"
	install -D -m 644 "$tree/holdfast.toml" "$root/etc/holdfast/holdfast.toml"
	install -D -m 644 packaging/debian/copyright "$root/usr/share/doc/holdfast/copyright"
	cp -R README.md CHANGELOG.md docs "$root/usr/share/doc/holdfast"
	size=$(find "$root" -type f -printf '%s\n' | awk '{ n += int(($1 + 1023) / 1024) } END { print n }') # KiB
	mkdir "$root/DEBIAN"
	cp packaging/debian/conffiles packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN"
	sed "s/@VERSION@/$deb_version/; s/@ARCH@/$deb_arch/; s/@SIZE@/$size/" packaging/debian/control >"$root/DEBIAN/control"
	seal "$root"
	dpkg-deb --root-owner-group --build "$root" "$out/holdfast_${deb_version}_$deb_arch.deb" >/dev/null
done

cd "$out"
sha256sum -- *.tar.gz *.deb >SHA256SUMS
cat SHA256SUMS
