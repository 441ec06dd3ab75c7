package buckets

import (
	"net/url"
	"slices"

	"holdfast/internal/app/service"
)

// frame returns the header for pages about a bucket or an account. Pages that list the buckets of all accounts have
// none.
func frame(path string, values url.Values) *service.Frame {
	account, bucket := values.Get("account"), values.Get("bucket")
	switch {
	case account == "":
		return nil
	case bucket != "":
		f := tabbed(path, service.Frame{Title: bucket, Icon: "bucket", Tabs: bucketTabs}, "account", account, "bucket", bucket)
		if f != nil && path != "objects" { // whose breadcrumbs are the folders
			f.Parents = []service.Link{{Text: "Buckets", To: "buckets"}, {Text: account, To: service.PageLink("accounts/show", "account", account)}}
		}
		return f
	}
	f := tabbed(path, service.Frame{Title: account, Icon: "accounts", Tabs: accountTabs}, "account", account)
	if f != nil {
		f.Parents = []service.Link{{Text: "Accounts", To: "accounts"}}
	}
	return f
}

// bucketTabs and accountTabs are the pages about a bucket and an account.
var (
	bucketTabs = []service.Link{
		{Text: "Objects", To: "objects"}, {Text: "Versions", To: "versions"}, {Text: "Access", To: "policy/show"}, {Text: "Lifecycle", To: "lifecycle/show"},
		{Text: "Events", To: "notifications/show"}, {Text: "Settings", To: "buckets/show"}, {Text: "Unfinished uploads", To: "uploads"},
	}
	accountTabs = []service.Link{
		{Text: "Account", To: "accounts/show"}, {Text: "Buckets", To: "buckets"}, {Text: "Access keys", To: "keys"}, {Text: "Quota", To: "quotas/show"},
	}
)

// tabbed returns a thing's header with its names in the tabs' addresses, or nil if path is no tab. names are query values,
// as for service.PageLink.
func tabbed(path string, f service.Frame, names ...string) *service.Frame {
	if !slices.ContainsFunc(f.Tabs, func(l service.Link) bool { return l.To == path }) {
		return nil
	}
	f.Tabs = slices.Clone(f.Tabs)
	for i := range f.Tabs {
		f.Tabs[i].To = service.PageLink(f.Tabs[i].To, names...)
	}
	return &f
}
