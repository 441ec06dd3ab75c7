package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// level is how close a module is to a vulnerability.
type level int

const (
	required level = iota // another package of the vulnerable module is used
	imported              // the vulnerable package is used, its vulnerable functions are not
	reached
)

func (l level) String() string {
	return []string{"required, not imported", "imported, not reached", "REACHABLE"}[l]
}

// finding is an advisory that applies to a version in use.
type finding struct {
	level                  level
	id, summary            string
	module, version, fixed string
	function               string // the vulnerable function that is reached, or ""
	caller                 string // a place that leads there, or ""
}

func (f finding) String() string {
	text := fmt.Sprintf("%s: %s in %s@%s: %s", f.level, f.id, f.module, f.version, cmp.Or(f.summary, "no summary"))
	if f.function != "" {
		text += ": calls " + f.function
	}
	if f.caller != "" {
		text += " from " + f.caller
	}
	if f.fixed == "" {
		return text + "; no version fixes it"
	}
	return text + "; fixed in " + f.fixed
}

func anyReached(all []finding) bool {
	return slices.ContainsFunc(all, func(f finding) bool { return f.level == reached })
}

// message is a part of govulncheck's output in JSON (golang.org/x/vuln/internal/govulncheck).
type message struct {
	Config *struct {
		ScanLevel string `json:"scan_level"`
	} `json:"config"`
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV          string  `json:"osv"`
		FixedVersion string  `json:"fixed_version"`
		Trace        []frame `json:"trace"`
	} `json:"finding"`
}

// frame is a step from the vulnerable function (the first) to the checked module (the last). Only a reached function has
// more than a module and a package.
type frame struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Package  string `json:"package"`
	Function string `json:"function"`
	Receiver string `json:"receiver"`
	Position *struct {
		Filename string `json:"filename"`
		Line     int    `json:"line"`
	} `json:"position"`
}

func (f frame) name() string {
	if f.Receiver != "" {
		return f.Package + "." + f.Receiver + "." + f.Function
	}
	return f.Package + "." + f.Function
}

// findings reads govulncheck's output and returns one finding per advisory and module, the nearest of each.
func findings(stream io.Reader) (all []finding, err error) {
	summaries, nearest := map[string]string{}, map[[2]string]finding{}
	complete := false
	for in := json.NewDecoder(stream); ; {
		var m message
		switch err := in.Decode(&m); {
		case errors.Is(err, io.EOF):
			if !complete {
				return nil, uncheckedf("govulncheck did not look for reachable functions")
			}
			for _, f := range nearest {
				f.summary = summaries[f.id]
				all = append(all, f)
			}
			slices.SortFunc(all, func(a, b finding) int {
				return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.id, b.id), cmp.Compare(a.module, b.module))
			})
			return all, nil
		case err != nil:
			return nil, uncheckedf("the output of govulncheck is not valid: %v", err)
		}
		switch {
		case m.Config != nil:
			complete = m.Config.ScanLevel == "symbol"
		case m.OSV != nil:
			summaries[m.OSV.ID] = m.OSV.Summary
		case m.Finding != nil && len(m.Finding.Trace) > 0:
			f := describe(m.Finding.OSV, m.Finding.FixedVersion, m.Finding.Trace)
			key := [2]string{f.id, f.module}
			if known, ok := nearest[key]; !ok || f.level > known.level {
				nearest[key] = f
			}
		}
	}
}

func describe(id, fixed string, trace []frame) finding {
	at, first := trace[0], trace[len(trace)-1]
	f := finding{id: id, module: at.Module, version: at.Version, fixed: fixed}
	switch {
	case at.Function != "":
		f.level, f.function = reached, at.name()
		if len(trace) > 1 {
			f.caller = first.name()
			if first.Position != nil && first.Position.Line > 0 {
				f.caller = fmt.Sprintf("%s (%s:%d)", f.caller, first.Position.Filename, first.Position.Line)
			}
		}
	case at.Package != "":
		f.level = imported
	}
	return f
}
