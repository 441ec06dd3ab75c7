package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"holdfast/internal/testdb"
)

func report(w io.Writer, log string) error {
	tests, remedies, err := readLog(log)
	if err != nil {
		return err
	}
	for _, engine := range testdb.Engines() {
		said := "no test ran: none uses it"
		switch {
		case len(tests[engine]) > 0:
			said = fmt.Sprintf("%d tests ran", len(tests[engine]))
		case remedies[engine] != "":
			said = "no test ran: " + remedies[engine]
		}
		if _, err := fmt.Fprintf(w, "%-9s %s\n", engine, said); err != nil {
			return err
		}
	}
	return nil
}

func readLog(path string) (tests map[string]map[string]bool, remedies map[string]string, err error) {
	tests, remedies = map[string]map[string]bool{}, map[string]string{}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return tests, remedies, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.SplitN(lines.Text(), "\t", 4)
		if len(field) != 4 {
			return nil, nil, fmt.Errorf("the engine log has a line %q", lines.Text())
		}
		engine, kind, pkg, text := field[0], field[1], field[2], field[3]
		switch kind {
		case testdb.Ran:
			if tests[engine] == nil {
				tests[engine] = map[string]bool{}
			}
			tests[engine][pkg+"\t"+text] = true
		case testdb.Absent:
			remedies[engine] = text
		}
	}
	return tests, remedies, lines.Err()
}
