package archtest

// Reasons of many files.
const (
	ownSpool     = "the spool is a folder of this server; the names contain a run that it made itself"
	ownData      = "a constant name in the data folder, or a folder of this server there"
	ownAudits    = "the folder of audits and drains in the data folder, and constant names or numbers in it"
	operatorsOwn = "the operator names the file or folder"
)

// ownPaths are the calls by path in packages that read archives. No archive, restored database or client decides the
// paths.
var ownPaths = map[string]own{
	"internal/app/buckets/imports.go":             {"os.ReadFile", operatorsOwn},
	"internal/app/buckets/maintain.go":            {"durable.MakeFolder", ownAudits},
	"internal/app/buckets/processes.go":           {"durable.MakeFolder os.Remove×2", "files of this process, and locks that the server finds in its own folder"},
	"internal/app/guest/handoff.go":               {"durable.Replace os.ReadFile", operatorsOwn},
	"internal/app/overview/history_file.go":       {"durable.Replace os.Open", ownData},
	"internal/app/service/folder.go":              {"os.CreateTemp os.MkdirTemp os.OpenFile os.Remove×2", "a check creates files with random names in the operator's folders and removes them"},
	"internal/app/service/input.go":               {"os.Open", operatorsOwn},
	"internal/app/service/transfer.go":            {"durable.File", operatorsOwn},
	"internal/backup/backup.go":                   {"durable.Create durable.Rename durable.SyncFolder os.MkdirTemp os.ReadFile os.RemoveAll", "the operator names the new folder; the names in it are constants"},
	"internal/backup/contents.go":                 {"durable.File os.ReadFile", ownData},
	"internal/backup/record.go":                   {"durable.File×2 os.ReadFile×2 os.Remove", ownData},
	"internal/backup/repository.go":               {"durable.MakeFolder", ownSpool},
	"internal/backup/scheduler.go":                {"durable.MakeFolder", ownSpool},
	"internal/backup/verified.go":                 {"durable.Replace os.ReadFile", ownData},
	"internal/backup/verify.go":                   {"durable.OpenFolder os.RemoveAll", "the caller names the temporary folder; the backup's names are resolved in a new folder below it"},
	"internal/buckets/blobs/filedriver/driver.go": {"os.Mkdir os.OpenRoot×5", "the node's folder from the configuration or a node that was added; bodies are opened below it"},
	"internal/buckets/maintenance/audit.go":       {"durable.MakeFolder", ownAudits},
	"internal/buckets/maintenance/background.go":  {"os.RemoveAll", ownAudits},
	"internal/buckets/maintenance/backup.go":      {"durable.MakeFolder os.CreateTemp os.OpenRoot os.Remove", "the folder that is filled, a random name in it, and the folder above a node's, whose name CheckName has checked"},
	"internal/buckets/maintenance/drain.go":       {"durable.MakeFolder os.Remove", ownAudits},
	"internal/buckets/maintenance/lease.go":       {"durable.Replace os.ReadFile", ownAudits},
	"internal/buckets/maintenance/repair.go":      {"durable.MakeFolder", ownAudits},
	"internal/buckets/maintenance/sorter.go":      {"durable.Rename os.Open os.OpenFile os.Remove", ownAudits},
	"internal/buckets/maintenance/state.go":       {"durable.Replace os.OpenFile os.ReadFile os.Remove", ownAudits},
	"internal/certificates/acme.go":               {"os.ReadFile", operatorsOwn},
	"internal/certificates/files.go":              {"os.ReadFile×2", operatorsOwn},
	"internal/certificates/storage.go":            {"durable.MakeFolder durable.Replace os.ReadFile os.RemoveAll", "CheckName checks each key, and only this server writes the folder"},
	"internal/cli/generate.go":                    {"os.MkdirAll", operatorsOwn},
	"internal/cli/import.go":                      {"durable.MakeFolder×2", ownData},
	"internal/cli/import_problems.go":             {"durable.Replace os.Remove", operatorsOwn},
	"internal/importing/findings.go":              {"durable.Replace os.ReadFile os.Remove", ownData},
	"internal/replica/also.go":                    {"os.ReadFile", ownData},
	"internal/replica/capture.go":                 {"durable.MakeFolder os.OpenFile os.Remove×2", ownSpool},
	"internal/replica/location.go":                {"durable.MakeFolder durable.Replace os.ReadFile", ownSpool},
	"internal/replica/location/location.go":       {"durable.Create os.ReadFile×2", "the operator's key file, and a constant name in the data folder"},
	"internal/replica/location/signers.go":        {"durable.Create durable.Replace os.Open os.ReadFile×2", "constant names in the data folder, and a file that the operator names"},
	"internal/replica/maintain.go":                {"os.Open×3 os.Remove", ownSpool},
	"internal/replica/note.go":                    {"durable.Replace os.ReadFile", "the name of the spool with a constant end"},
	"internal/replica/once.go":                    {"durable.MakeFolder", ownSpool},
	"internal/replica/replica.go":                 {"os.Open", ownSpool},
	"internal/replica/restore.go":                 {"durable.OpenFolder", "the caller's folder; the names of a restore point are resolved below it"},
	"internal/replica/resume.go":                  {"durable.Replace durable.SyncFolder os.Open os.Remove", ownSpool},
	"internal/replica/spool.go":                   {"os.Remove×7", ownSpool},
	"internal/replica/target.go":                  {"durable.MakeFolder durable.OpenFolder", "the target's folder; objects are opened below it"},
	"internal/replica/wal.go":                     {"os.Open", "the log of a database of this server"},
	"internal/restore/dump.go":                    {"os.Open", operatorsOwn},
	"internal/restore/folder.go":                  {"durable.OpenFolder", "the folder that the operator names, or a folder that was listed in it; files are opened below it"},
	"internal/restore/restore.go":                 {"durable.OpenFolder os.Remove", "the data folder; restored files are created and moved below it"},
	"internal/secrets/file.go":                    {"durable.File×3 durable.SyncFolder os.ReadFile", ownData},
	"internal/secrets/guard.go":                   {"os.Remove", ownData},
}
