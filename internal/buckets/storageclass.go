package buckets

import (
	"cmp"
	"slices"
)

// StorageClass is an object's class in S3, which its writer chose. All bodies are stored alike, so it has no effect. The zero
// value is STANDARD.
type StorageClass string

const standard = "STANDARD"

// storageClasses are the other S3 classes whose objects can be read at once. In archives, such as GLACIER, a client
// must restore an object before it can read it, so these are refused.
var storageClasses = []StorageClass{"STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR", "REDUCED_REDUNDANCY"}

// ParseStorageClass returns false for a class that the server does not keep.
func ParseStorageClass(name string) (StorageClass, bool) {
	if name == "" || name == standard {
		return "", true
	}
	return StorageClass(name), slices.Contains(storageClasses, StorageClass(name))
}

// Name returns the name as S3 lists it.
func (c StorageClass) Name() string { return cmp.Or(string(c), standard) }
