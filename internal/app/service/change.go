package service

// Change is a change that an operator made, or a download of a file with secrets.
type Change struct {
	Service string // or "server"
	Page    string // or the noun of the operation
	Action  string
	What    []Named
	Err     error // nil: it succeeded
}

// Named is a value that says what was changed.
type Named struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
