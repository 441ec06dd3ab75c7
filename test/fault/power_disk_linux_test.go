package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/durable"
	"holdfast/test/fault/harness"
	"holdfast/test/powercut"
)

// TestPowerCutLoses checks the simulated disks: they lose data that a program does not sync, but not data written by
// package durable.
func TestPowerCutLoses(t *testing.T) {
	t.Parallel()
	if !needsPower(t) {
		return
	}
	seed := harness.Number(t, "FAULT_SEED", rand.Uint64()>>1)
	choose := rand.New(rand.NewPCG(seed, 0))
	m := powercut.New(t, 64<<20)
	text := strings.Repeat("acknowledged\n", 2000)
	bare := func(name string, sync func(f *os.File) error) error {
		f, err := os.Create(name + ".new")
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, sync(f), f.Close(), os.Rename(name+".new", name))
	}
	for _, tc := range []struct {
		name  string
		write func(name string) error
		loses bool
	}{
		{"no sync", func(name string) error { return bare(name, func(*os.File) error { return nil }) }, true},
		{"a sync of the file only", func(name string) error { return bare(name, (*os.File).Sync) }, true},
		{"a sync of the folder only", func(name string) error {
			return errors.Join(bare(name, func(*os.File) error { return nil }), durable.SyncFolder(filepath.Dir(name)))
		}, true},
		{"durable", func(name string) error { return durable.Create(name, durable.Bytes([]byte(text))) }, false},
	} {
		const rounds = 12
		lost := 0
		for round := range rounds {
			folder := filepath.Join(m.Disk(0).Dir, tc.name, fmt.Sprint(round))
			harness.Must(t, durable.MakeFolder(folder))
			before := m.Flushes(0)
			harness.Must(t, tc.write(filepath.Join(folder, "file")))
			if !tc.loses && m.Flushes(0) == before {
				t.Error("a sync does not reach the disk")
			}
			m.Cut(choose)
			m.Release()
			m.Restart(round == rounds-1)
			if got, err := os.ReadFile(filepath.Join(folder, "file")); err != nil || string(got) != text {
				lost++
			}
		}
		t.Logf("%s: %d of %d files were lost", tc.name, lost, rounds)
		if (lost > 0) != tc.loses {
			t.Errorf("%s: %d of %d files were lost, FAULT_SEED=%d", tc.name, lost, rounds, seed)
		}
	}
}
