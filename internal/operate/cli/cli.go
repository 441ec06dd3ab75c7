// Package cli makes the commands of operations.
package cli

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/operate"
)

// Commands returns a command with the name of a service, which has those of its operations.
func Commands(name string, all []operate.Operation, sh *service.Shell) *cobra.Command {
	root := &cobra.Command{Use: name}
	nouns := map[string]*cobra.Command{}
	for i := range all {
		o := &all[i]
		noun := nouns[o.Noun()]
		if noun == nil {
			noun = &cobra.Command{Use: o.Noun(), Short: o.Group, Long: o.Long, Aliases: o.Former}
			nouns[o.Noun()] = noun
			root.AddCommand(noun)
		}
		noun.AddCommand(command(o, sh))
	}
	return root
}

func command(o *operate.Operation, sh *service.Shell) *cobra.Command {
	cmd := &cobra.Command{Use: o.Verb(), Short: o.Doc}
	flags := cmd.Flags()
	var arguments []string
	for _, in := range o.Inputs {
		switch {
		case in.Subject:
			arguments = append(arguments, strings.ToUpper(in.Name))
		case in.Kind == reflect.Bool:
			flags.Bool(in.Name, in.Default == "true", in.Doc)
		case in.Kind == reflect.Int:
			flags.Int(in.Name, in.Number(), in.Doc)
		default:
			flags.String(in.Name, in.Default, in.Doc)
		}
	}
	cmd.Use = strings.Join(append([]string{cmd.Use}, arguments...), " ")
	cmd.Args = service.Args(arguments...)
	asJSON := flags.Bool("json", false, jsonDoc(o))
	cmd.RunE = sh.Run(func(ctx context.Context, args []string) error {
		values := map[string]string{}
		for _, in := range o.Inputs {
			if in.Subject {
				values[in.Name] = args[0]
			} else {
				values[in.Name] = flags.Lookup(in.Name).Value.String()
			}
		}
		r, err := o.Run(ctx, values)
		if wrong, ok := errors.AsType[*operate.InputError](err); ok {
			return usageError(o, wrong)
		}
		if err != nil {
			return err
		}
		return show(sh, o, r, *asJSON)
	})
	return cmd
}

func jsonDoc(o *operate.Operation) string {
	if o.Kind == operate.Change {
		return "print the result as JSON"
	}
	return "print one line of JSON for each " + cmp.Or(o.Names, "row")
}

// usageError names the input as it is typed.
func usageError(o *operate.Operation, wrong *operate.InputError) error {
	name := "--" + wrong.Input
	if s := o.Subject(); s != nil && s.Name == wrong.Input {
		name = strings.ToUpper(s.Name)
	}
	return service.Usagef("%s: %s", name, wrong.Reason)
}

// show prints a result: a line of JSON for each row, a table, or what a change did.
func show(sh *service.Shell, o *operate.Operation, r *operate.Result, asJSON bool) error {
	if asJSON {
		for _, row := range r.Rows {
			if err := sh.PrintLine(row.Value); err != nil {
				return err
			}
		}
		return nil
	}
	if o.Kind == operate.Change {
		_, err := sh.Printf("%s\n", r.Notice)
		return err
	}
	w := sh.Table()
	if err := w.Row(titles(o)...); err != nil {
		return err
	}
	for _, row := range r.Rows {
		cells := make([]any, len(row.Cells))
		for i, v := range row.Cells {
			cells[i] = v
			if at, ok := v.(time.Time); ok && at.IsZero() {
				cells[i] = ""
			} else if ok {
				cells[i] = at.UTC().Format(time.DateTime)
			}
		}
		if err := w.Row(cells...); err != nil {
			return err
		}
	}
	return w.Flush()
}

// titles returns the header of a table. The first column of times names the time zone.
func titles(o *operate.Operation) (all []any) {
	zone := " (UTC)"
	for _, c := range o.Columns {
		title := strings.ToUpper(c.Title)
		if c.IsTime() {
			title, zone = title+zone, ""
		}
		all = append(all, title)
	}
	return all
}
