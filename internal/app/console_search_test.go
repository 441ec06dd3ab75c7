package app_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holdfast/internal/operate"
)

var searches = map[string][]struct{ query, link string }{
	"tokenserver": {
		{"Small", "accounts/show?account=" + smallAccount}, {"sma", "accounts/show?account=" + smallAccount},
		{smallAccount[:5], "accounts/show?account=" + smallAccount}, {strings.ToUpper(smallAccount), "accounts/show?account=" + smallAccount},
	},
	"extstorage": {
		{someTenant[:9], "tenants/show?tenant=" + someTenant}, {someTenant, "tenants/show?tenant=" + someTenant},
		{strings.ToUpper(someInstall[:12]), "installs/show?install=" + someInstall + "&tenant=" + someTenant}, {someInstall, "installs/show?install=" + someInstall},
		{foundInstall + "/", foundRecord}, {foundInstall[:4] + "/Booking 1", foundRecord}, {foundTenant + "/" + foundInstall + "/Book", foundRecord},
		{strings.ToUpper(foundTenant[:3]) + "/" + strings.ToUpper(foundInstall[:12]) + "/B", foundRecord},
	},
	"buckets": {
		{"teste", "accounts/show?account=tester"}, {"tester", "accounts/show?account=tester"},
		{"phot", "objects?account=tester&bucket=photos"}, {"photos/new/p", "object?account=tester&bucket=photos&object=new%2Fp"}, {"photos/", "object?account=tester&bucket=photos"},
	},
	"guest": {{"gms_", "session?session=gms_"}, {"GMS_0", "session?session=gms_0"}},
}

const (
	foundTenant  = "bbbbbbbb-2222-4333-8444-555555555555"
	foundInstall = "cccccccc-2222-4333-8444-555555555555"
	foundRecord  = "record?install=" + foundInstall + "&key=Booking+1&namespace=notes&tenant=" + foundTenant
)

func consoleSearch(b *browser) {
	b.open("tokenserver/accounts/show?account=" + smallAccount)
	b.submit("Set label", "label", "Smallest of all")
	b.open("extstorage/records/create?namespace=notes&install=" + foundInstall + "&tenant=" + foundTenant)
	b.submit("Create", "key", "Booking 1", "value", "1")
	for _, s := range allDeclared() {
		named := slices.ContainsFunc(s.all, func(o operate.Operation) bool {
			return o.Kind == operate.List && o.IsPaged() && len(o.Subjects()) == 0 && len(o.Names) > 0
		})
		if s.command != "" && named && searches[s.folder] == nil {
			b.t.Errorf("%s has lists with names, and no search", s.folder)
		}
	}
	for service, all := range searches {
		for _, c := range all {
			links := b.find(c.query)
			if !slices.ContainsFunc(links, func(to string) bool { return strings.HasPrefix(to, "/console/"+service+"/"+c.link) }) {
				b.t.Errorf("%q does not find %s/%s but %q", c.query, service, c.link, links)
			}
			if len(links) > 60 {
				b.t.Errorf("%q finds %d things", c.query, len(links))
			}
			for _, to := range links {
				b.open(strings.TrimPrefix(to, "/console/"))
			}
		}
	}
	for _, query := range []string{
		"%", "_", "gms_%", "gms__", "\x00", "a\x00", "\xff\xfe", "photos/%", foundInstall + "/booking", foundInstall + "/%", someTenant + "/" + foundInstall + "/", foundInstall + "/a/b/c", foundInstall + "/\x00", foundInstall[:7] + "x/", "/" + foundInstall + "/B\xff", "photos/\x00", "photos/\xff", "nothing/", "/", "'", `"`, strings.Repeat("a", 1024),
		strings.Repeat("f", 10_000), strings.Repeat("/", 900), "00000000-0000-0000-0000-000000000000", "9223372036854775808",
	} {
		if links := b.find(query); len(links) > 0 {
			b.t.Errorf("%.20q finds %q", query, links)
		}
		b.hides("could not be searched")
	}
}

func (b *browser) find(query string) (links []string) {
	b.t.Helper()
	if status := b.send(http.MethodGet, b.base+"/console/search?q="+url.QueryEscape(query), nil); status != http.StatusOK {
		b.t.Errorf("search for %.20q: %d\n%s", query, status, b.page)
	}
	for _, body := range b.page.all("tbody") {
		for _, a := range body.all("a") {
			links = append(links, a.attrs["href"])
		}
	}
	return links
}
