package service

// Change is an operator's change, or a download of a file with secrets.
type Change struct {
	Service string  // or "server"
	Page    string  // or the operation's noun
	Action  string  // verb of the operation, or name of the action
	What    []Named // subjects and inputs that identify the changed thing
	Err     error   // nil: succeeded
}

type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
