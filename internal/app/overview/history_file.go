package overview

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	"holdfast/internal/durable"
	"holdfast/internal/errcode"
)

const (
	// HistoryFile is in the data folder.
	HistoryFile = "history.json"

	historySaved   = 10 // points between writes: a crash loses ten minutes, and a day writes less than 5 MB
	historyFormat  = 1
	maxHistoryFile = 256 << 10 // bytes; a larger file is not ours
	maxDatabases   = 16        // in the file; no server has more services
	sampleNumbers  = 6         // numbers in a row before the sizes
)

// storedHistory stores a sample as a row: Unix time, seconds, requests, errors, rejected requests, 99th percentile,
// and database sizes, null if unknown.
type storedHistory struct {
	Format    int                     `json:"format"`
	Databases []string                `json:"databases"`
	Samples   map[string][][]*float64 `json:"samples"`
}

// save writes the file. A failure is logged once, until a write succeeds again.
func (h *History) save() {
	if h.File == "" {
		return
	}
	text, err := json.Marshal(h.stored())
	if err == nil {
		err = durable.Replace(h.File, durable.Bytes(text))
	}
	h.mu.Lock()
	isNew := err != nil && !h.unsaved
	h.unsaved = err != nil
	h.mu.Unlock()
	if isNew {
		h.Log.Warn("the console's charts will not survive a restart: their file cannot be written", "path", h.File, "error", err)
	}
}

// stored returns all periods' samples. More than maxDatabases databases lose their sizes.
func (h *History) stored() *storedHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[string]bool{}
	for _, all := range h.samples {
		for i := range all {
			for where := range all[i].sizes {
				known[where] = true
			}
		}
	}
	s := &storedHistory{Format: historyFormat, Databases: slices.Sorted(maps.Keys(known)), Samples: map[string][][]*float64{}}
	s.Databases = s.Databases[:min(len(s.Databases), maxDatabases)]
	for i, all := range h.samples {
		for j := range all {
			s.Samples[spans[i].name] = append(s.Samples[spans[i].name], all[j].row(s.Databases))
		}
	}
	return s
}

// row encodes a sample for the databases in this order. Seconds are rounded to milliseconds, to keep the file small.
func (s *sample) row(databases []string) []*float64 {
	short := math.Round(s.seconds*1000) / 1000
	row := []*float64{new(float64(s.at.Unix())), new(short), new(s.requests), new(s.errors), new(s.shed), new(s.slow)} // copies: the last sample changes
	for _, where := range databases {
		if size, ok := s.sizes[where]; ok {
			row = append(row, new(float64(size)))
		} else {
			row = append(row, nil)
		}
	}
	return row
}

// load ignores a file that is damaged, too large, or from another program. Later writes replace it.
func (h *History) load() {
	if h.File == "" {
		return
	}
	s, err := readHistory(h.File)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var samples [len(spans)][]sample
	for i := range spans {
		if err == nil {
			samples[i], err = s.samplesOf(&spans[i])
		}
	}
	if err != nil {
		h.Log.Warn("the console's charts start empty: their file cannot be read", "path", h.File, "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = samples
}

// errHistory is for a file that cannot be used.
var errHistory = errcode.New(errcode.Invalid, "the file is damaged, or from another version")

// readHistory returns fs.ErrNotExist on the first start.
func readHistory(name string) (s *storedHistory, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, maxHistoryFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxHistoryFile || json.Unmarshal(text, &s) != nil || s == nil || s.Format != historyFormat || len(s.Databases) > maxDatabases {
		return nil, errHistory
	}
	return s, nil
}

// samplesOf decodes and checks a period's rows, since another program may have written the file. Of too many rows it
// takes the newest.
func (s *storedHistory) samplesOf(of *span) (all []sample, err error) {
	rows := s.Samples[of.name]
	for _, row := range rows[max(0, len(rows)-of.samples):] {
		if len(row) != sampleNumbers+len(s.Databases) {
			return nil, errHistory
		}
		for i, v := range row {
			if v == nil && i < sampleNumbers || v != nil && (*v < 0 || *v > math.MaxInt64/2) {
				return nil, errHistory
			}
		}
		measured := sample{at: time.Unix(int64(*row[0]), 0), seconds: *row[1], requests: *row[2], errors: *row[3], shed: *row[4], slow: *row[5], sizes: map[string]int64{}}
		for i, where := range s.Databases {
			if size := row[sampleNumbers+i]; size != nil {
				measured.sizes[where] = int64(*size)
			}
		}
		all = append(all, measured)
	}
	return all, nil
}
