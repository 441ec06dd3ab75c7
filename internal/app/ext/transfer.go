package ext

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	exthttp "holdfast/internal/extstorage/httpapi"
)

func (c *command) export() *cobra.Command {
	var (
		o    owner
		file string
	)
	cmd := &cobra.Command{
		Use:   "export --tenant T --install I",
		Short: "Export the records and schemas of an install as lines of JSON",
		Long: "Export the schemas and records of an install in the format of the API: a line of JSON for each, and\n" +
			"a last line that says that the export is complete. They are read from the database page by page\n" +
			"while servers run. Revoked installs can be exported, too: revoke an install first if nothing may\n" +
			"change meanwhile. The file gets its name when it is complete.",
		Example: "  holdfast ext export --tenant $TENANT --install $INSTALL -o install.ndjson",
		Args:    service.Args(),
		RunE: c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
			if file == "" {
				return c.exportTo(ctx, s, install, c.Stdout)
			}
			return service.WriteWhole(file, func(w io.Writer) error { return c.exportTo(ctx, s, install, w) })
		}),
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to `FILE` (default: standard output)")
	return cmd
}

// exportTo writes an export. Each page is read when it is written.
func (c *command) exportTo(ctx context.Context, s *ext.Service, install ext.Owner, to io.Writer) error {
	page, err := s.ExportInstall(ctx, install, "")
	if err != nil {
		return err
	}
	bar := c.Bar("records", page.Header.Records)
	defer bar.End()
	w := bufio.NewWriterSize(to, 64<<10)
	if _, err := w.Write(exthttp.AppendHeader(nil, page.Header)); err != nil {
		return err
	}
	for {
		if err := writePage(w, &page); err != nil {
			return err
		}
		bar.Show(page.Total)
		if page.Next == "" {
			_, err := w.Write(exthttp.AppendComplete(nil, &page))
			return errors.Join(err, w.Flush())
		}
		if page, err = s.ExportInstall(ctx, install, page.Next); err != nil {
			return err
		}
	}
}

func writePage(w io.Writer, page *ext.ExportPage) error {
	for i := range page.Schemas {
		if _, err := w.Write(exthttp.AppendSchema(nil, &page.Schemas[i])); err != nil {
			return err
		}
	}
	for i := range page.Records {
		if _, err := w.Write(exthttp.AppendLine(nil, &page.Records[i])); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) importInto() *cobra.Command {
	var (
		o        owner
		preserve bool
	)
	cmd := &cobra.Command{
		Use:   "import --tenant T --install I FILE",
		Short: "Import an export into an install",
		Long: "Import the records and schemas of an export into an install while servers run. FILE may be -, for\n" +
			"standard input. Limits and quotas apply, and schemas where the file does not contain the active\n" +
			"one; rate limits do not. Records are written 20 at a time: after a failure those before it are\n" +
			"written, and the same file can be imported again. A file without the last line of an export is\n" +
			"imported as far as it goes, and is an error.\n\n" +
			"With --preserve, records keep their revisions and times. A record that has a greater revision here\n" +
			"is not changed; one with the same revision and other contents is an error.",
		Example: "  holdfast ext import --tenant $TENANT --install $INSTALL install.ndjson\n" +
			"  holdfast ext import --tenant $TENANT --install $INSTALL --preserve install.ndjson",
		Args: service.Args("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.withInstall(&o, func(ctx context.Context, s *ext.Service, install ext.Owner) error {
				return c.importFile(ctx, s, install, preserve, args[0])
			})(cmd, args)
		},
	}
	o.flags(cmd)
	_ = cmd.MarkFlagRequired("install")
	cmd.Flags().BoolVar(&preserve, "preserve", false, "keep the revisions and times of records and schemas")
	return cmd
}

func (c *command) importFile(ctx context.Context, s *ext.Service, install ext.Owner, preserve bool, name string) error {
	lines, size, err := c.OpenInput(name)
	if err != nil {
		return err
	}
	defer lines.Close()
	bar := c.Bar("bytes", size)
	request := ext.Request{Grant: ext.Grant{Owner: install, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
	done, err := exthttp.Import(ctx, s, request, preserve, bar.Reader(lines))
	bar.End()
	newer := ""
	if preserve {
		newer = fmt.Sprintf(", newer here: %d", done.Newer)
	}
	c.Printf("records: %d, written: %d, unchanged: %d, expired: %d%s; schemas: %d\n",
		done.Records, done.Written, done.Unchanged, done.Expired, newer, done.Schemas)
	if item, ok := errors.AsType[*ext.ItemError](err); ok {
		switch pointer, ok := ext.PointerOf(item.Err); {
		case ok && pointer == "":
			return fmt.Errorf("line %d %w", item.Index+1, item.Err)
		case ok:
			return fmt.Errorf("line %d: %s %w", item.Index+1, pointer, item.Err)
		}
		return fmt.Errorf("line %d: %w", item.Index+1, item.Err)
	}
	return err
}
