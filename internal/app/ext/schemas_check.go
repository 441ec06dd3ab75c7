package ext

import (
	"context"
	"fmt"

	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

// checkInput names a version; After continues where an earlier check stopped.
type checkInput struct {
	versionInput
	After string `flag:"after" doc:"next from the previous part"`
}

// activeVersion is the version that validates new values; 0: none.
type activeVersion int64

func (v activeVersion) String() string {
	if v == 0 {
		return "none: every JSON value is valid"
	}
	return fmt.Sprintf("version %d", int64(v))
}

// schemaCheck predicts the effect of activating a version. Checked and Failed count only the records in this part;
// Invalid lists the first.
type schemaCheck struct {
	schemaOutput
	Active  activeVersion      `json:"active" title:"Active" least:"0" doc:"version it was compared with; 0: none"`
	Effect  string             `json:"effect,omitempty" title:"Effect" zero:"-" example:"harmless" doc:"missing: no active version"`
	Checked int                `json:"checked" title:"Records checked" least:"0"`
	Failed  int                `json:"failed" title:"Not valid" least:"0"`
	Changes []schemaDifference `json:"changes" table:"Differences" empty:"There are no differences."`
	Invalid []invalidRecord    `json:"invalid" table:"Records that are not valid" empty:"All these records are valid."`
	Next    string             `json:"next,omitempty" cursor:"" doc:"pass as after to get the next part; missing: this is the last part"`
}

// schemaDifference is a difference from the active version. Effect says whether valid values may become invalid.
type schemaDifference struct {
	Pointer string `json:"pointer" title:"Location" zero:"the whole schema" example:"/properties/theme"`
	Change  string `json:"change" title:"Change"`
	Effect  string `json:"effect" title:"Effect"`
}

// invalidRecord is a stored record that the version would refuse. Pointer is within its value.
type invalidRecord struct {
	Key     string `json:"key" title:"Key" subject:"key"`
	Pointer string `json:"pointer" title:"Location" zero:"the whole value"`
	Reason  string `json:"reason" title:"Reason"`
}

// checkSchema validates as many records as a request's time allows. It changes nothing.
func (s *Extensions) checkSchema(ctx context.Context, in checkInput) (c schemaCheck, err error) {
	p, err := in.ref()
	if err != nil {
		return c, err
	}
	v := ext.SchemaVersion(in.Version)
	sc, err := s.opened.Schema(ctx, p.request(ctx), p.Namespace, v)
	if err != nil {
		return c, err
	}
	report, err := s.opened.CheckVersion(ctx, p.request(ctx), p.Namespace, v, in.After)
	if pointer, _ := ext.PointerOf(err); pointer == "/cursor" {
		return c, &operate.InputError{Input: "after", Reason: "expected next from the previous part"}
	} else if err != nil {
		return c, explained(err)
	}
	c = schemaCheck{
		schemaOutput: outputOfSchema(&sc), Active: activeVersion(report.Active), Checked: report.DryRun.Checked, Failed: report.DryRun.Failed,
		Changes: []schemaDifference{}, Invalid: []invalidRecord{}, Next: report.DryRun.Next,
	}
	if c.Active != 0 {
		c.Effect = report.Compatibility.Effect
	}
	for _, change := range report.Compatibility.Changes {
		c.Changes = append(c.Changes, schemaDifference{change.Pointer, change.Change, change.Effect})
	}
	for _, record := range report.DryRun.First {
		c.Invalid = append(c.Invalid, invalidRecord{string(record.Key), record.Pointer, record.Reason})
	}
	return c, nil
}
