package changes

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"holdfast/internal/durable"
)

const (
	// File is in the data folder; formerSuffix is added to the previous file's name.
	File         = "changes.jsonl"
	formerSuffix = ".1"

	maxFile  = 512 << 10
	maxEntry = 8 << 10
	maxValue = 512
	maxWhat  = 10
)

func (e *Entry) shorten() {
	what := e.What
	e.What = nil
	for _, named := range what[:min(len(what), maxWhat)] {
		named.Name, named.Value = short(named.Name), short(named.Value)
		e.What = append(e.What, named)
	}
	for _, text := range []*string{&e.Who, &e.Service, &e.Page, &e.Action, &e.Failed, &e.Address} {
		*text = short(*text)
	}
}

func short(s string) string {
	if len(s) <= maxValue {
		return s
	}
	return strings.ToValidUTF8(s[:maxValue], "") + "…"
}

// save requires the lock. A failure is harmless and logged once.
func (l *Log) save(e *Entry) {
	if l.File == "" {
		return
	}
	line, err := json.Marshal(e)
	if len(line) > maxEntry { // JSON lengthens control characters
		less := *e
		less.What = nil
		line, err = json.Marshal(&less)
	}
	if err == nil {
		err = l.append(append(line, '\n'))
	}
	if err != nil && !l.unsaved {
		l.Log.Warn("the list of changes will not survive a restart: its file cannot be written; the log contains all changes", "path", l.File, "error", err)
	}
	l.unsaved = err != nil
}

// append appends a line, after terminating a line truncated by a crash. It opens the file each time, because another
// server on the data folder may rename it.
func (l *Log) append(line []byte) (err error) {
	if err := l.prepare(int64(len(line))); err != nil {
		return err
	}
	f, err := os.OpenFile(l.File, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
			line = append([]byte{'\n'}, line...)
		}
	}
	if _, err := f.Write(line); err != nil {
		return err
	}
	return f.Sync()
}

func (l *Log) prepare(more int64) error {
	info, err := os.Stat(l.File)
	if err == nil && info.Size()+more <= maxFile {
		return nil
	}
	if err == nil {
		err = durable.Rename(l.File, l.File+formerSuffix)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.Create(l.File, durable.Bytes(nil)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// load requires the lock.
func (l *Log) load() {
	if l.read || l.File == "" {
		return
	}
	l.read = true
	damaged := 0
	for _, name := range []string{l.File + formerSuffix, l.File} {
		text, err := readEnd(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.Log.Warn("the list of changes starts empty: its file cannot be read", "path", name, "error", err)
		}
		for line := range bytes.Lines(text) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			var e Entry
			if err := json.Unmarshal(line, &e); err != nil || e.At.IsZero() || e.Number < 1 {
				damaged++
				continue
			}
			e.shorten()
			if n := len(l.all); n > 0 && e.Number <= l.all[n-1].Number { // another server assigned the number
				e.Number = l.all[n-1].Number + 1
			}
			l.keep(e)
		}
	}
	if damaged > 0 {
		l.Log.Warn("damaged lines in the list of changes are not shown", "path", filepath.Clean(l.File), "lines", damaged)
	}
}

func readEnd(name string) (text []byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if from := info.Size() - 2*maxFile; from > 0 {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, 2*maxFile))
}
