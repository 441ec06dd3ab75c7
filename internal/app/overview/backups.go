package overview

import (
	"context"
	"strings"
	"time"

	"holdfast/internal/backup"
	"holdfast/internal/errcode"
	"holdfast/internal/operate"
)

// listedBackups limits the list of backups, and listTimeout how long the target may take.
const (
	listedBackups = 100
	listTimeout   = 10 * time.Second
)

func backupOperations(s *backup.Scheduler) []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Path: "backup", Doc: "List the newest 100 backups at backup.url", Rows: "backups", Group: "Make a backup",
			Title: "Backups", Empty: "There is no backup at backup.url.", ServerOnly: true,
			Text: "Backups in the folder or bucket backup.url. The command holdfast backup list also reads others.",
		}, listBackups(s)),
		operate.NewChange(operate.About{Path: "backup/make", Doc: "Begin a backup to backup.url", Button: "Back up now", ServerOnly: true}, makeBackup(s)),
	}
}

// backupOutput is a backup at backup.url.
type backupOutput struct {
	At  time.Time `json:"at" title:"Made" doc:"it has every write that was acknowledged before"`
	Has string    `json:"has" title:"Content" doc:"its databases and other files" example:"secrets.toml"`
}

func listBackups(s *backup.Scheduler) func(context.Context, operate.None) ([]backupOutput, error) {
	return func(ctx context.Context, _ operate.None) (rows []backupOutput, err error) {
		address := s.Settings().URL
		if address == "" {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		all, err := backup.List(ctx, address, listedBackups)
		if errcode.Is(err, errcode.NotFound) {
			err = nil
		}
		for _, one := range all {
			rows = append(rows, backupOutput{one.At, strings.Join(one.Has, ", ")})
		}
		return rows, err
	}
}

// backupBegun is the result of asking for a backup.
type backupBegun struct{}

// Notice implements operate.Changed.
func (backupBegun) Notice() string {
	return "the backup has begun; the overview shows when it was made"
}

func makeBackup(s *backup.Scheduler) func(context.Context, operate.None) (backupBegun, error) {
	return func(context.Context, operate.None) (backupBegun, error) { return backupBegun{}, s.Ask() }
}
