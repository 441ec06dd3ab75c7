package service

// Change is an operator's change, or a download of a file with secrets.
type Change struct {
	Service string // or "server"
	Page    string // or the operation's noun
	Action  string
	What    []Named
	Err     error
}

type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
