package conf

import (
	"fmt"
	"strings"
)

// Rule describes settings that are valid alone and do not work together.
type Rule struct {
	// Settings are full names, such as server.public_url. A problem is reported at the first.
	Settings []string

	// When describes the combination. It identifies the rule.
	When string

	// Refuses means that the server does not start. Otherwise it warns.
	Refuses bool

	// Says returns the consequence for the loaded values, or "" if they work together. A value may be invalid: that is
	// another problem.
	Says func() string

	Fix string // advice
}

// Problem returns the rule's problem, if the loaded settings break it.
func (r *Rule) Problem(report Report) (p Problem, broken bool) {
	consequence := r.Says()
	if consequence == "" {
		return p, false
	}
	key := r.Settings[0]
	return Problem{Where: report.Where(key), Key: key, What: consequence, Fix: r.Fix}, true
}

// Apply adds broken rules to the report's warnings, and returns those with which the server does not start.
func Apply(rules []Rule, report *Report) (problems []Problem) {
	for i := range rules {
		p, broken := rules[i].Problem(*report)
		switch {
		case broken && rules[i].Refuses:
			problems = append(problems, p)
		case broken:
			report.Warnings = append(report.Warnings, p)
		}
	}
	return problems
}

// Says returns text for Rule.Says, if the settings do not work together.
func Says(broken bool, text string) func() string {
	return func() string {
		if broken {
			return text
		}
		return ""
	}
}

// RuleReference returns a Markdown table of the rules, in their order.
func RuleReference(rules []Rule) string {
	var b strings.Builder
	b.WriteString("\n## Settings that do not work together\n\n" +
		"Each of these settings is valid alone. The server does not start with a combination marked *refused*. For the others it logs a\n" +
		"warning, and `holdfast check` reports a finding.\n\n" +
		"| Combination | Settings | Result | Fix |\n|---|---|---|---|\n")
	for i := range rules {
		r, result := &rules[i], "warning"
		if r.Refuses {
			result = "refused"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", cell(r.When), strings.Join(r.Settings, "`, `"), result, cell(r.Fix))
	}
	return b.String()
}
