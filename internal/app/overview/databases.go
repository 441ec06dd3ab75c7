package overview

import (
	"cmp"
	"context"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/backup"
	"holdfast/internal/operate"
)

// databaseOperations returns the operations on databases in backups. They also run offline, since backups are
// recorded in the data folder.
func databaseOperations(s *backup.Scheduler) []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "databases", Doc: "List the databases of this server and of its backups, and the newest backup with each", Group: "Find the newest backup with a database",
			Title: "Databases in backups", Empty: "There is neither a database nor a recorded backup.",
			Text: "Backups contain the SQLite databases. When a database is moved to a database server, its newest backup is kept until you dismiss the database.",
		}, listDatabases(s)),
		operate.NewChange(operate.About{
			Path: "databases/dismiss", Doc: "Let retention delete all backups with a database that was moved away, or that other tools back up", Button: "Dismiss", Danger: true, NeedsYes: true,
			More: "The newest backup with a database is kept in backup.url and replica.url even if a rule would delete it, until you\n" +
				"dismiss the database. Then backup.keep and replica.keep apply, and holdfast check no longer warns.",
			Ask: "Its newest backup may then be deleted, after the next backup. Dismiss it only if other tools back it up, or if you no longer need its data.",
		}, dismissDatabase(s)),
	}
}

// databaseOutput is a database of the server, or one that only backups contain.
type databaseOutput struct {
	Database  string     `json:"database" title:"Database" subject:"database" example:"secrets.toml"`
	State     shownState `json:"-" title:"State"`
	Where     string     `json:"where,omitempty" title:"Now in" zero:"-" doc:"the server's database, without secrets; missing: the server does not open it"`
	Newest    time.Time  `json:"newest,omitzero" title:"Newest backup" doc:"newest recorded backup with it; missing: none"`
	Path      string     `json:"path,omitempty" title:"At" zero:"-" doc:"folder or URL of this backup"`
	Dismissed time.Time  `json:"dismissed,omitzero" title:"Dismissed" doc:"when an operator dismissed the backups made before; missing: never"`
	Offered   []string   `json:"-"` // buttons for the row; empty: none
}

// Offers offers to dismiss a database that backups no longer contain.
func (o databaseOutput) Offers(string) bool { return len(o.Offered) > 0 }

func listDatabases(s *backup.Scheduler) func(context.Context, operate.None) ([]databaseOutput, error) {
	return func(context.Context, operate.None) (rows []databaseOutput, err error) {
		all, err := s.Server().Databases()
		for _, d := range all {
			rows = append(rows, databaseRow(&d))
		}
		return rows, err
	}
}

// databaseRow decides the row's state and its button. A database that backups still contain cannot be dismissed,
// because every new backup would bring it back.
func databaseRow(d *backup.Database) databaseOutput {
	o := databaseOutput{Database: d.Name, Where: d.Where, Newest: d.Newest, Path: d.Path, Dismissed: d.Dismissed}
	isBackedUp := d.Where != "" && !d.IsElsewhere || d.File == d.Name
	if !isBackedUp && !d.IsDismissed() {
		o.Offered = []string{"dismiss"}
	}
	switch {
	case d.NeedsBackup() && d.IsElsewhere:
		o.State = shownState{service.Warning, "backups do not contain it"}
	case d.NeedsBackup():
		o.State = shownState{service.Warning, "in no backup"}
	case isBackedUp:
		o.State = shownState{service.OK, "backups contain it"}
	case d.IsDismissed():
		o.State = shownState{service.OK, "dismissed"}
	default:
		o.State = shownState{service.OK, "its newest backup is kept"}
	}
	return o
}

type databaseInput struct {
	Database string `subject:"database" doc:"service name, or another name in the list"`
}

// databaseDismissed is the dismissed database with the backup that the rules may delete now.
type databaseDismissed struct {
	Database string    `json:"database" title:"Database"`
	Newest   time.Time `json:"newest,omitzero" title:"Newest backup" doc:"the rules may now delete it; missing: no recorded backup has the database"`
	Path     string    `json:"path,omitempty" title:"At" zero:"-" doc:"folder or URL of this backup"`
}

func (d databaseDismissed) Notice() string {
	if d.Newest.IsZero() {
		return "dismissed " + d.Database
	}
	return "dismissed " + d.Database + ": backup.keep and replica.keep apply to its backups, the newest of which is " + d.Path + " from " + service.FormatMoment(d.Newest)
}

// dismissDatabase lets retention delete the newest backup with a database. It deletes nothing itself.
func dismissDatabase(s *backup.Scheduler) func(context.Context, databaseInput) (databaseDismissed, error) {
	return func(_ context.Context, in databaseInput) (databaseDismissed, error) {
		d, err := s.Server().Dismiss(in.Database)
		return databaseDismissed{cmp.Or(d.Name, in.Database), d.Newest, d.Path}, err
	}
}
