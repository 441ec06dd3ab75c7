package tokenserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"holdfast/internal/errcode"
	"holdfast/internal/tokenserver"
)

type exportingStorage struct {
	usedStorage
	imported []string
}

func (*exportingStorage) Export(_ context.Context, u *tokenserver.User, label string, to io.Writer, progress func(int64)) (int64, error) {
	progress(1)
	_, err := fmt.Fprintf(to, "{\"uid\":%d}\n{\"label\":%q}\n", u.UID, label)
	return 1, err
}

func (s *exportingStorage) Import(_ context.Context, from io.Reader, o ImportOptions, target func(ExportedUser) (*tokenserver.User, error)) (done Imported, err error) {
	lines := bufio.NewReader(from)
	line, err := lines.ReadBytes('\n')
	var header ExportedUser
	if err != nil || json.Unmarshal(line, &header) != nil {
		return done, errcode.New(errcode.Invalid, "line 1: expected a header")
	}
	u, err := target(header)
	if err != nil {
		return done, err
	}
	rest, err := io.ReadAll(lines)
	if err != nil {
		return done, err
	}
	if string(rest) == "wrong" {
		return Imported{Records: 1, Written: 1}, errors.New("line 3 is wrong")
	}
	s.imported = append(s.imported, fmt.Sprint(u.UID, o, string(rest)))
	return Imported{Records: 1, Total: 1, Written: 1}, nil
}

func TestTransfers(t *testing.T) {
	t.Parallel()
	storage := &exportingStorage{}
	o := newOperator(t, storage)
	u := o.adopt(someAccount)
	const unknown = "00000000000000000000000000000000"
	upload := func(status int, path, file string) string {
		t.Helper()
		return o.Upload(status, "/tokenserver/"+path, "application/x-ndjson", file).Text
	}
	line := fmt.Sprintf(`{"uid":%d}`, u.UID)
	o.send(200, http.MethodGet, "accounts/"+someAccount+"/export", "", line)
	o.send(200, http.MethodGet, fmt.Sprintf("users/%d/export", u.UID), "", line)
	o.send(404, http.MethodGet, "accounts/"+unknown+"/export", "", "has no storage here")
	o.send(422, http.MethodGet, "accounts/abc/export", "", "expected 32 hexadecimal digits")
	o.send(422, http.MethodGet, "users/0/export", "", "must be at least 1")

	o.send(200, http.MethodPost, "accounts/"+someAccount+"/label", `{"label":"Anna"}`)
	o.send(200, http.MethodGet, "accounts/"+someAccount+"/export", "", line+"\n"+`{"label":"Anna"}`)

	const header = `{"Account":"` + otherAccount + `","Keys":"0000000000001-AAAAAAAAAAAAAAAAAAAAAA","Label":"Bert"}` + "\n"
	const result = `{"records":1,"total":1,"written":1,"expired":0,"newer":0,"collections":0}`
	if text := upload(200, "accounts/"+otherAccount+"/import?preserve=true", header+"1"); text != result { // creates the account
		t.Error(text)
	}
	o.send(200, http.MethodGet, "accounts/"+otherAccount, "", `"label":"Bert"`)
	o.send(200, http.MethodPost, "accounts/"+otherAccount+"/label", `{"label":"Berta"}`)
	upload(200, "accounts/"+otherAccount+"/import?merge=true", header+"1")
	o.send(200, http.MethodGet, "accounts/"+otherAccount, "", `"label":"Berta"`) // keeps the account's own label
	storage.imported = storage.imported[:1]
	if text := upload(200, fmt.Sprintf("users/%d/import?merge=true", u.UID), header+"2"); text != result {
		t.Error(text)
	}
	if want := []string{fmt.Sprintf("%d {true false}1", u.UID+1), fmt.Sprintf("%d {false true}2", u.UID)}; fmt.Sprint(storage.imported) != fmt.Sprint(want) {
		t.Errorf("imported are %q, want %q", storage.imported, want)
	}
	upload(409, "accounts/"+someAccount+"/import", header)
	upload(422, "accounts/"+otherAccount+"/import", "no header\n")
	upload(422, "accounts/abc/import", header)
	upload(422, "accounts/"+otherAccount+"/import?preserve=maybe", header)
	upload(409, "accounts/"+unknown+"/import", header)
	if len(storage.imported) != 2 {
		t.Errorf("imported are %q", storage.imported)
	}
}

// TestImportedLabel checks that an import names a label that an operator could not set.
func TestImportedLabel(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{"": "", "\u202eanna": "the label in the export is not imported: a label must be at most 100 printable characters, without spaces at its ends"} {
		if note, err := (&target{label: label}).setLabel(t.Context()); err != nil || note != want {
			t.Errorf("%q: %q, %v", label, note, err)
		}
	}
}
