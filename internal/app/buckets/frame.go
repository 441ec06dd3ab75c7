package buckets

import (
	"net/url"

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
		f := tabbed(path, bucket, "Bucket", "bucket", []string{"account", account, "bucket", bucket}, bucketTabs)
		if f != nil && path != "objects" { // whose breadcrumbs are the folders
			f.Parents = []service.Link{{Text: "Buckets", To: "buckets"}, {Text: account, To: service.PageLink("accounts/show", "account", account)}}
		}
		return f
	}
	f := tabbed(path, account, "Account", "accounts", []string{"account", account}, accountTabs)
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

// tabbed returns a thing's header if path is one of its tabs, or else nil. names are the query values that name the thing.
func tabbed(path, title, kind, icon string, names []string, tabs []service.Link) *service.Frame {
	f, isTab := &service.Frame{Title: title, Kind: kind, Icon: icon}, false
	for _, l := range tabs {
		isTab = isTab || l.To == path
		f.Tabs = append(f.Tabs, service.Link{Text: l.Text, To: service.PageLink(l.To, names...)})
	}
	if !isTab {
		return nil
	}
	return f
}
