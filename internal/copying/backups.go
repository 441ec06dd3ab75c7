package copying

// BackedUpBy says what backs up the target after the copy, and how long backups of the source stay.
func (c *Copy) BackedUpBy() string {
	if c.Target.Embedded() {
		return "From then on, holdfast backup and the replica contain the new database."
	}
	says := "From then on, back up the new database with its server's own tools (docs/backup.md#postgresql): holdfast backup and the\n" +
		"replica do not contain it."
	if c.Source.Embedded() {
		says += " They keep the newest copy of the source until you run: holdfast databases dismiss " + c.Service
	}
	return says
}
