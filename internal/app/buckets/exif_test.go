package buckets

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"testing"
)

func photo(order binary.AppendByteOrder, mark string, orientation uint16, small []byte) []byte {
	tiff := order.AppendUint32(append([]byte(mark), 0, 0)[:4], 8)
	copy(tiff[2:], order.AppendUint16(nil, 42))
	tiff = order.AppendUint16(tiff, 1) // one entry: the orientation
	tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, exifOrientation), 3), 1)
	tiff = append(order.AppendUint16(tiff, orientation), 0, 0)
	tiff = order.AppendUint32(tiff, uint32(len(tiff)+4))
	tiff = order.AppendUint16(tiff, 2)
	for tag, value := range map[uint16]int{exifThumbStart: len(tiff) + 2*exifEntry + 4, exifThumbLength: len(small)} {
		tiff = order.AppendUint32(order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, tag), 4), 1), uint32(value))
	}
	tiff = append(order.AppendUint32(tiff, 0), small...)
	head := append([]byte{}, jpegStart...)
	head = append(head, 0xff, 0xe0, 0, 4, 1, 2) // an earlier segment
	head = binary.BigEndian.AppendUint16(append(head, 0xff, exifMarker), uint16(2+len(exifHeader)+len(tiff)))
	return append(append(append(head, exifHeader...), tiff...), 0xff, 0xdb)
}

func smallPicture(t testing.TB) []byte {
	t.Helper()
	var small bytes.Buffer
	if err := jpeg.Encode(&small, image.NewGray(image.Rect(0, 0, 16, 12)), nil); err != nil {
		t.Fatal(err)
	}
	return small.Bytes()
}

func TestExifThumbnail(t *testing.T) {
	t.Parallel()
	small := smallPicture(t)
	for name, head := range map[string][]byte{"little endian": photo(binary.LittleEndian, "II", 1, small), "big endian": photo(binary.BigEndian, "MM", 1, small)} {
		if got := exifThumbnail(head); !bytes.Equal(got, small) {
			t.Errorf("%s: %d bytes, want %d", name, len(got), len(small))
		}
		for n := range len(head) - 2 {
			if got := exifThumbnail(head[:n]); got != nil {
				t.Fatalf("%s: %d bytes of a photo that was cut after %d", name, len(got), n)
			}
		}
	}
	turnedOne := exifThumbnail(photo(binary.BigEndian, "MM", 6, small))
	if _, err := jpeg.Decode(bytes.NewReader(turnedOne)); err != nil || len(turnedOne) != len(small)+36 || imageType(turnedOne) != "image/jpeg" {
		t.Errorf("a photo on its side: %d bytes, %v", len(turnedOne), err)
	}
	segment := turnedOne[2:38]
	if tiff := segment[4+len(exifHeader):]; int(binary.BigEndian.Uint16(segment[2:])) != len(segment)-2 {
		t.Errorf("the segment has %d bytes", len(segment))
	} else if numbers, next := tiffDirectory(tiff, binary.BigEndian, 8); numbers[exifOrientation] != 6 || next != 0 {
		t.Errorf("the orientation is %v", numbers)
	}
	if got := exifThumbnail(photo(binary.BigEndian, "MM", 1, []byte("<script>"))); got != nil {
		t.Errorf("a small picture that is no JPEG: %q", got)
	}
}

func FuzzExifThumbnail(f *testing.F) {
	small := smallPicture(f)
	f.Add(photo(binary.LittleEndian, "II", 1, small))
	f.Add(photo(binary.BigEndian, "MM", 8, small))
	f.Fuzz(func(t *testing.T, head []byte) {
		if got := exifThumbnail(head); got != nil && (!bytes.HasPrefix(got, jpegStart) || len(got) > len(head)+36) {
			t.Errorf("%d bytes of %d: %x", len(got), len(head), got[:2])
		}
	})
}
