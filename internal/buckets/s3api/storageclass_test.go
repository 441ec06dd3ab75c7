package s3api_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// immediate are the storage classes whose objects S3 returns without a restore, according to
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-class-intro.html. All others are refused.
var immediate = map[types.StorageClass]bool{
	types.StorageClassStandard: true, types.StorageClassStandardIa: true, types.StorageClassOnezoneIa: true, types.StorageClassIntelligentTiering: true,
	types.StorageClassGlacierIr: true, types.StorageClassReducedRedundancy: true,
}

// classWrites create the object key with a storage class.
var classWrites = map[string]func(s *server, key, class string) answer{
	"PUT": func(s *server, key, class string) answer {
		return s.do("PUT", "/photos/"+key, hello, "x-amz-storage-class: "+class)
	},
	"form": func(s *server, key, class string) answer {
		return s.send(s.form(map[string]string{"key": key, "x-amz-storage-class": class}, hello))
	},
	"upload": func(s *server, key, class string) answer {
		a := s.do("POST", "/photos/"+key+"?uploads", "", "x-amz-storage-class: "+class)
		if a.status != 200 {
			return a
		}
		id := a.element("UploadId")
		part := s.part("/photos/"+key, id, "1", hello)
		s.do("GET", "/photos/"+key+"?uploadId="+id, "").want(200).has("<StorageClass>" + class + "</StorageClass>")
		s.do("GET", "/photos?uploads&prefix="+key, "").want(200).has("<StorageClass>" + class + "</StorageClass>")
		return s.complete("/photos/"+key, id, part)
	},
	"copy": func(s *server, key, class string) answer {
		s.do("PUT", "/photos/source", hello, "x-amz-storage-class: GLACIER_IR")
		return s.do("PUT", "/photos/"+key, "", "x-amz-copy-source: photos/source", "x-amz-storage-class: "+class)
	},
	"copy onto itself": func(s *server, key, class string) answer {
		s.do("PUT", "/photos/"+key, hello, "x-amz-storage-class: STANDARD")
		return s.do("PUT", "/photos/"+key, "", "x-amz-copy-source: photos/"+key, "x-amz-storage-class: "+class)
	},
}

// hasClass reads the class wherever S3 shows it, also after the tags change.
func (s *server) hasClass(key, class string) {
	s.t.Helper()
	header := "X-Amz-Storage-Class: " + class
	if class == string(types.StorageClassStandard) {
		header = "X-Amz-Storage-Class:"
	}
	s.do("HEAD", "/photos/"+key, "").want(200).head(header)
	s.do("GET", "/photos/"+key, "").want(200).is(hello).head(header)
	for _, target := range []string{"?prefix=" + key, "?list-type=2&prefix=" + key, "?versions&prefix=" + key} {
		s.do("GET", "/photos"+target, "").want(200).has("<StorageClass>" + class + "</StorageClass>")
	}
	s.do("GET", "/photos/"+key+"?attributes", "", "x-amz-object-attributes: StorageClass").want(200).has("<StorageClass>" + class + "</StorageClass>")
	s.do("PUT", "/photos/"+key+"?tagging", "<Tagging><TagSet></TagSet></Tagging>").want(200)
	s.do("HEAD", "/photos/"+key, "").want(200).head(header)
}

// TestStorageClasses writes each SDK class in each way, and reads it wherever S3 shows it.
func TestStorageClasses(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *server) {
		t.Helper()
		s.do("PUT", "/photos", "").want(200)
		for _, c := range append(types.StorageClass("").Values(), "standard", "OTHER") {
			class := string(c)
			for way, write := range classWrites {
				key := strings.ReplaceAll(way, " ", "-") + "-" + class
				a := write(s, key, class)
				if !immediate[c] {
					a.fails(400, "InvalidStorageClass")
					continue
				}
				if a.status >= 300 {
					t.Fatalf("%s %s: %d %s", way, class, a.status, a.body)
				}
				s.hasClass(key, class)
			}
		}
		// With the setting off, clients may still read and send STANDARD.
		s.options.Limits.StandardOnly = true
		s.reopen()
		s.do("HEAD", "/photos/PUT-STANDARD_IA", "").want(200).head("X-Amz-Storage-Class: STANDARD_IA")
		for way, write := range classWrites {
			if a := write(s, "off", "STANDARD"); a.status >= 300 {
				t.Errorf("%s: %d %s", way, a.status, a.body)
			}
			for c := range immediate {
				if c != types.StorageClassStandard {
					write(s, "off", string(c)).fails(400, "InvalidStorageClass")
				}
			}
		}
	})
}
