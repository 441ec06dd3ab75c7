package importing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/durable"
)

// Findings are the problems of a service's last import. They are kept in the data folder, because the other server may
// be gone when somebody asks which rows are missing.
type Findings struct {
	At    time.Time `json:"at"`
	From  string    `json:"from"` // URLs without secrets
	Kinds []Kind    `json:"kinds"`
}

// Kind counts rows with the same problem.
type Kind struct {
	Left  bool   `json:"left"` // the rows are not here
	What  string `json:"what"`
	Rows  int64  `json:"rows"`
	First string `json:"first"` // a row as an example
	Fix   string `json:"fix,omitempty"`
}

// findingsFile returns the file for a service.
func findingsFile(data, name string) string { return filepath.Join(data, "import-"+name+".json") }

// Add counts a row, unless rows like it are usual.
func (f *Findings) Add(p service.Problem) {
	if p.Usual {
		return
	}
	i := slices.IndexFunc(f.Kinds, func(k Kind) bool { return k.What == p.What && k.Left == p.Left })
	if i < 0 {
		i, f.Kinds = len(f.Kinds), append(f.Kinds, Kind{Left: p.Left, What: p.What, First: p.Row, Fix: p.Fix})
	}
	f.Kinds[i].Rows++
}

// Save keeps the findings for Check. Without any it removes those of an earlier import.
func (f *Findings) Save(data, name string) error {
	file := findingsFile(data, name)
	if len(f.Kinds) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(file, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

// Check returns the findings of the last import for `holdfast check`; none without an import. Rows are only counted, so
// the answer is small after any import.
func Check(data, name string) (findings []service.Finding) {
	what, file := name+" import", findingsFile(data, name)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f Findings
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return []service.Finding{{State: service.Warning, What: what, Says: file + " cannot be read: " + err.Error(), Fix: "let the user that runs the server read it, or move it away"}}
	}
	for _, k := range f.Kinds {
		verb := "imported"
		if k.Left {
			verb = "did not import"
		}
		fix := "once that is settled, move " + file + " away"
		if k.Fix != "" {
			fix = k.Fix + "; " + fix
		}
		findings = append(findings, service.Finding{
			State: service.Warning, What: what, Fix: fix,
			Says: fmt.Sprintf("the import of %s %s %s, %s: e.g. %s", f.At.UTC().Format(time.DateOnly), verb, service.Count(k.Rows, "row"), k.What, service.Printable(k.First)),
		})
	}
	return findings
}
