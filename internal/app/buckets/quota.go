package buckets

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/internal/app/service"
	"holdfast/internal/buckets"
)

// usage formats objects and bytes with their quotas as four columns.
func usage(u buckets.Usage, q buckets.Quota) service.Columns {
	objects, size := "-", "-"
	if q.Objects > 0 {
		objects = strconv.FormatInt(q.Objects, 10)
	}
	if q.Bytes > 0 {
		size = service.FormatBytes(q.Bytes)
	}
	return service.Columns(fmt.Sprintf("%d\t%s\t%s\t%s", u.Objects, objects, service.FormatBytes(u.Bytes), size))
}

// accountOrBucket checks the arguments ACCOUNT [BUCKET].
func accountOrBucket(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	return service.Args("ACCOUNT")(cmd, args)
}

func (c *command) quota() *cobra.Command {
	var size, objects string
	var set buckets.Quota
	cmd := &cobra.Command{
		Use:   "quota ACCOUNT [BUCKET]",
		Short: "Show or set how much an account or one of its buckets may store",
		Long: "Show what an account or one of its buckets stores and its quotas, or set them. A bucket is limited by\n" +
			"its own quota and by that of the account. A quota takes effect at once and deletes nothing: a write\n" +
			"that would exceed it gets the error QuotaExceeded. Bytes of incomplete uploads count.",
		Example: "  holdfast buckets quota main\n" +
			"  holdfast buckets quota main --bytes 2GiB --objects 100000\n" +
			"  holdfast buckets quota main photos --bytes none",
		Args: accountOrBucket,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if set.Bytes, err = parseLimit("--bytes", size); err == nil {
				set.Objects, err = parseLimit("--objects", objects)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&size, "bytes", "", "quota in bytes, or with a unit such as 2GiB; none removes it")
	cmd.Flags().StringVar(&objects, "objects", "", "quota of the number of objects; none removes it")
	cmd.RunE = c.run(func(ctx context.Context, st store, args []string) error {
		a, err := st.Account(ctx, args[0])
		if err != nil {
			return err
		}
		u, b, err := c.usageOf(ctx, st, a, args[1:])
		if err != nil {
			return err
		}
		if size == "" && objects == "" {
			return c.printUsage(args[len(args)-1], u)
		}
		if size == "" {
			set.Bytes = u.Quota.Bytes
		}
		if objects == "" {
			set.Objects = u.Quota.Objects
		}
		if err := st.SetQuota(ctx, a.ID, b, set); err != nil {
			return err
		}
		if u, _, err = c.usageOf(ctx, st, a, args[1:]); err != nil {
			return err
		}
		return c.printUsage(args[len(args)-1], u)
	})
	return cmd
}

// parseLimit parses the value of a flag: 0 for none.
func parseLimit(flag, text string) (int64, error) {
	if text == "" || text == "none" {
		return 0, nil
	}
	n, ok, expected := int64(0), false, "a number"
	if flag == "--bytes" {
		n, ok = service.ParseBytes(text)
		expected = "a number of bytes, such as 1048576 or 2GiB,"
	} else if parsed, err := strconv.ParseInt(text, 10, 64); err == nil {
		n, ok = parsed, true
	}
	if !ok || n < 1 || n == math.MaxInt64 {
		return 0, service.Usagef("%s: invalid value %q: expected %s above 0, or none", flag, text, expected)
	}
	return n, nil
}

// usageOf reads the usage of an account, or of the bucket that is named.
func (c *command) usageOf(ctx context.Context, st store, a buckets.Account, name []string) (u buckets.BucketUsage, b buckets.BucketRef, err error) {
	all, err := st.Usage(ctx, a.ID)
	if err != nil || len(name) == 0 {
		return buckets.BucketUsage{Usage: all.Total, Quota: all.Quota}, b, err
	}
	for _, u := range all.Buckets {
		if u.Bucket.Name == name[0] {
			return u, u.Bucket, nil
		}
	}
	return u, b, buckets.ErrNoBucket
}

func (c *command) printUsage(name string, u buckets.BucketUsage) error {
	w := c.Table()
	w.Printf("NAME\tOBJECTS\tQUOTA\tBYTES\tQUOTA\n%s\t%s\n", name, usage(u.Usage, u.Quota))
	return w.Flush()
}

func (c *command) list() *cobra.Command {
	return &cobra.Command{
		Use: "list ACCOUNT", Short: "List the buckets of an account with what they store and their quotas", Args: service.Args("ACCOUNT"),
		RunE: c.run(func(ctx context.Context, st store, args []string) error {
			a, err := st.Account(ctx, args[0])
			if err != nil {
				return err
			}
			all, err := st.Usage(ctx, a.ID)
			if err != nil {
				return err
			}
			w := c.Table()
			w.Printf("BUCKET\tOBJECTS\tQUOTA\tBYTES\tQUOTA\n")
			for _, u := range all.Buckets {
				w.Printf("%s\t%s\n", u.Bucket.Name, usage(u.Usage, u.Quota))
			}
			return w.Flush()
		}),
	}
}
