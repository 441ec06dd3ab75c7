package ext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
)

func (c *command) schema() *cobra.Command {
	cmd := &cobra.Command{Use: "schema", Short: "Manage the JSON Schemas of an install's namespaces"}
	cmd.AddCommand(c.schemaPut(), c.schemaList(), c.schemaDelete())
	return cmd
}

// namespaceFlags has the flags of a namespace of an install.
type namespaceFlags struct {
	owner

	namespace string
}

func (n *namespaceFlags) add(cmd *cobra.Command) {
	n.flags(cmd)
	cmd.Flags().StringVar(&n.namespace, "namespace", "", "`NAME` of the namespace")
	_ = cmd.MarkFlagRequired("install")
	_ = cmd.MarkFlagRequired("namespace")
}

// withNamespace runs fn on the namespace that the flags name, with the rights of an
// operator and the arguments of the command.
func (c *command) withNamespace(n *namespaceFlags, fn func(context.Context, *ext.Service, ext.Request, ext.Namespace, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		install, err := n.parse(true)
		if err != nil {
			return err
		}
		ns, err := ext.ParseNamespace(n.namespace)
		if err != nil {
			return service.Usagef("--namespace: %v", err)
		}
		r := ext.Request{Grant: ext.Grant{Owner: install, Every: ext.Read | ext.Modify}, Caller: ext.Caller{Kind: "admin"}}
		return c.withArgs(func(ctx context.Context, s *ext.Service, args []string) error { return fn(ctx, s, r, ns, args) })(cmd, args)
	}
}

func (c *command) schemaPut() *cobra.Command {
	var n namespaceFlags
	var activate bool
	cmd := &cobra.Command{
		Use:   "put --tenant T --install I --namespace NS [FILE]",
		Short: "Register a schema as a draft; with --activate, validate new values by it",
		Long: "Register a JSON Schema (draft 2020-12) for a namespace, from a file or from standard input. It is\n" +
			"checked as in the API and becomes the next version of the namespace's schema: a draft. With --activate\n" +
			"it replaces the active version. Stored records are not validated again.",
		Example: "  holdfast ext schema put --tenant $TENANT --install $INSTALL --namespace settings schema.json --activate\n" +
			"  echo '{\"type\":\"object\"}' | holdfast ext schema put --tenant $TENANT --install $INSTALL --namespace settings",
		Args: optionalFile,
	}
	cmd.RunE = c.withNamespace(&n, func(ctx context.Context, s *ext.Service, r ext.Request, ns ext.Namespace, args []string) error {
		document, err := c.readSchema(args)
		if err != nil {
			return err
		}
		sc, err := s.RegisterSchema(ctx, r, ns, document)
		if err != nil {
			return placed(err)
		}
		if activate {
			version := sc.Version
			if sc, err = s.SetSchema(ctx, r, ns, version, ext.Active); err != nil {
				return fmt.Errorf("version %d was registered but could not be activated: %w", version, placed(err))
			}
		}
		_, err = c.Printf("registered version %d of the schema of %s: %s\n", sc.Version, ns, sc.Status)
		return err
	})
	n.add(cmd)
	cmd.Flags().BoolVar(&activate, "activate", false, "make it the active version")
	return cmd
}

// optionalFile checks that a command has at most one argument.
func optionalFile(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return service.Usagef("unexpected argument %q", args[1])
	}
	return nil
}

// readSchema reads a file, or standard input.
func (c *command) readSchema(args []string) ([]byte, error) {
	from, _, err := c.OpenInput(append(args, "-")[0])
	if err != nil {
		return nil, err
	}
	defer from.Close()
	const most = 4 * ext.MaxSchemaBytes // as in the API
	document, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, err
	case len(document) > most:
		return nil, fmt.Errorf("the schema has more than %d bytes", most)
	case len(strings.TrimSpace(string(document))) == 0:
		return nil, errors.New("the schema is empty: name a file, or write the schema to standard input")
	}
	return document, nil
}

// placed adds the place in the document to an error.
func placed(err error) error {
	if pointer, ok := ext.PointerOf(err); ok && pointer != "" {
		return fmt.Errorf("%s %w", pointer, err)
	}
	return err
}

func (c *command) schemaList() *cobra.Command {
	var n namespaceFlags
	var documents bool
	cmd := &cobra.Command{
		Use: "list --tenant T --install I --namespace NS", Short: "List the schemas of a namespace, the newest first", Args: service.Args(),
	}
	cmd.RunE = c.withNamespace(&n, func(ctx context.Context, s *ext.Service, r ext.Request, ns ext.Namespace, _ []string) error {
		w := c.Table()
		if !documents {
			w.Printf("VERSION\tSTATUS\tCREATED\tUPDATED\tBYTES\n")
		}
		for cursor := ""; ; {
			page, next, err := s.Schemas(ctx, r, ns, cursor, ext.MaxPage)
			if err != nil {
				return err
			}
			for i := range page {
				sc := &page[i]
				if documents {
					if _, err := fmt.Fprintln(c.Stdout, service.PrintableLines(string(sc.Document))); err != nil {
						return err
					}
					continue
				}
				w.Printf("%d\t%s\t%s\t%s\t%d\n", sc.Version, sc.Status,
					service.FormatMillis(int64(sc.CreatedAt)), service.FormatMillis(int64(sc.UpdatedAt)), len(sc.Document))
			}
			if cursor = next; cursor == "" {
				return w.Flush()
			}
		}
	})
	n.add(cmd)
	cmd.Flags().BoolVar(&documents, "documents", false, "print only the documents, one per line")
	return cmd
}

func (c *command) schemaDelete() *cobra.Command {
	var n namespaceFlags
	var version int32
	var all bool
	cmd := &cobra.Command{
		Use:   "delete --tenant T --install I --namespace NS (--version N | --all)",
		Short: "Delete one version of a namespace's schemas, or all",
		Long: "Delete one version of a namespace's schema, which must be neither the active nor the newest one, or\n" +
			"all versions. After --all the namespace accepts any JSON, and it no longer counts toward the quota of\n" +
			"namespaces unless it has a key. Version numbers are not used again.",
		Args: service.Args(),
	}
	cmd.RunE = c.withNamespace(&n, func(ctx context.Context, s *ext.Service, r ext.Request, ns ext.Namespace, _ []string) error {
		if !all && version < 1 {
			return service.Usagef("--version %d: must be 1 or more", version)
		}
		deleted, err := s.DropSchemas(ctx, r, ns, ext.SchemaVersion(version))
		switch {
		case err != nil:
			return err
		case deleted == 0 && !all:
			return fmt.Errorf("namespace %s has no version %d of a schema", ns, version)
		}
		_, err = c.Printf("deleted %s of the schema of %s\n", service.Count(int64(deleted), "version"), ns)
		return err
	})
	n.add(cmd)
	cmd.Flags().Int32Var(&version, "version", 0, "version `N`")
	cmd.Flags().BoolVar(&all, "all", false, "all versions")
	cmd.MarkFlagsOneRequired("version", "all")
	cmd.MarkFlagsMutuallyExclusive("version", "all")
	return cmd
}
