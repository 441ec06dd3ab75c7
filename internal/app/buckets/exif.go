package buckets

import (
	"bytes"
	"encoding/binary"
)

// Constants of JPEG and Exif, the format of camera metadata.
const (
	// exifMarker is the APP1 segment; the tags are from the TIFF directory in it. exifEntry is an entry's size in
	// bytes; mostEntries limits hostile files.
	exifMarker      = 0xe1
	exifOrientation = 0x0112
	exifThumbStart  = 0x0201
	exifThumbLength = 0x0202
	exifEntry       = 12
	mostEntries     = 200
)

var (
	jpegStart  = []byte{0xff, 0xd8}
	exifHeader = []byte("Exif\x00\x00")
)

// exifThumbnail returns the JPEG thumbnail that a camera embeds in a photo, or nil. head is the file's beginning. The
// input is hostile: every length is checked.
func exifThumbnail(head []byte) []byte {
	rest, ok := bytes.CutPrefix(head, jpegStart)
	for ok && len(rest) > 4 && rest[0] == 0xff {
		length := 2 + int(binary.BigEndian.Uint16(rest[2:]))
		if length > len(rest) {
			return nil
		}
		if tiff, isExif := bytes.CutPrefix(rest[4:max(4, length)], exifHeader); isExif && rest[1] == exifMarker {
			return tiffThumbnail(tiff)
		}
		rest = rest[length:]
	}
	return nil
}

// tiffThumbnail returns the thumbnail in the second TIFF directory.
func tiffThumbnail(tiff []byte) []byte {
	var order binary.ByteOrder = binary.LittleEndian
	switch {
	case bytes.HasPrefix(tiff, []byte("MM\x00*")):
		order = binary.BigEndian
	case !bytes.HasPrefix(tiff, []byte("II*\x00")):
		return nil
	}
	if len(tiff) < 8 {
		return nil
	}
	photo, next := tiffDirectory(tiff, order, order.Uint32(tiff[4:]))
	small, _ := tiffDirectory(tiff, order, next)
	start, length := small[exifThumbStart], small[exifThumbLength]
	if uint64(start)+uint64(length) > uint64(len(tiff)) {
		return nil
	}
	thumb, ok := bytes.CutPrefix(tiff[start:start+length], jpegStart)
	if !ok {
		return nil
	}
	return append(turned(photo[exifOrientation]), thumb...)
}

// tiffDirectory returns the numbers in a TIFF directory by tag, and the next directory's offset, or 0. It does not
// decode other types, which the caller does not read.
func tiffDirectory(tiff []byte, order binary.ByteOrder, at uint32) (numbers map[uint16]uint32, next uint32) {
	numbers = map[uint16]uint32{}
	if at == 0 || uint64(at)+2 > uint64(len(tiff)) {
		return numbers, 0
	}
	entries := tiff[at+2:]
	for n := order.Uint16(tiff[at:]); n > 0 && len(numbers) < mostEntries; n-- {
		if len(entries) < exifEntry {
			return numbers, 0
		}
		const isShort = 3
		tag, value := order.Uint16(entries), order.Uint32(entries[8:])
		if order.Uint16(entries[2:]) == isShort {
			value = uint32(order.Uint16(entries[8:]))
		}
		numbers[tag], entries = value, entries[exifEntry:]
	}
	if len(entries) < 4 {
		return numbers, 0
	}
	return numbers, order.Uint32(entries)
}

// turned begins a JPEG with only the orientation, which the thumbnail lacks, so that browsers turn it like the photo.
func turned(orientation uint32) []byte {
	start := append([]byte{}, jpegStart...)
	if orientation < 2 || orientation > 8 {
		return start
	}
	const length = 34
	start = append(start, 0xff, exifMarker, 0, length)
	start = append(append(start, exifHeader...), "MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00"...)
	return append(start, byte(orientation), 0, 0, 0, 0, 0, 0)
}
