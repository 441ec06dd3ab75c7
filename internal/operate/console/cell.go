package console

import (
	"fmt"
	"time"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Shown is a value that the console renders with more than text, e.g. a state or a bar.
type Shown interface{ Cell() service.Cell }

// cell returns a value as the console shows it. A text that is neither a Shown nor a size is an ID, which can be
// copied.
func cell(v any) service.Cell {
	switch v := v.(type) {
	case Shown:
		return v.Cell()
	case service.Rounded:
		return service.TextCell(v.Rounded())
	case time.Time:
		return service.TimeCell(v)
	case operate.Share:
		return service.Cell{Text: cell(v.Value).Text, Share: float64(v.Part), Most: float64(v.Whole)}
	}
	return service.IDCell(fmt.Sprint(v))
}
