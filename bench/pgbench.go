package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

func pgbench(ctx context.Context, url, script string, variables map[string]string, callers int, flags ...string) (float64, error) {
	program, err := findPgbench()
	if err != nil {
		return 0, err
	}
	file, err := os.CreateTemp("", "holdfast-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(script)
	if err := errors.Join(err, file.Close()); err != nil {
		return 0, err
	}
	args := append([]string{"-n", "-M", "prepared", "-f", file.Name(), "-c", strconv.Itoa(callers), "-j", strconv.Itoa(min(callers, 2))}, flags...)
	for name, value := range variables {
		args = append(args, "-D", name+"="+value)
	}
	out, err := exec.CommandContext(ctx, program, append(args, url)...).CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

func during(d time.Duration) []string { return []string{"-T", strconv.Itoa(wholeSeconds(d))} }

func findPgbench() (string, error) {
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil || len(found) == 0 {
		return "", errors.New("pgbench is not installed; it comes with PostgreSQL")
	}
	return slices.Max(found), nil
}
