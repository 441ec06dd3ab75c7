package replica

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"holdfast/internal/durable"
)

// The ends of the names of notes: JSON files beside the spool, because the spool is deleted after damage.
const (
	newestNote  = ".newest"  // the newest point that this data folder published
	mergedNote  = ".merged"  // the ranges of transactions that it sent
	lackingNote = ".lacking" // the files that the newest point lacks
)

// readNote decodes a note into a value, which stays as it is if the note does not exist.
func readNote(spool, end string, into any) error {
	text, err := os.ReadFile(spool + end)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// writeNote durably replaces a note.
func writeNote(spool, end string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return durable.Replace(spool+end, durable.Bytes(text))
}
