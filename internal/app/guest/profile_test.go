package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/conf"
)

func TestShopOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guest-reference.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(guide), "```toml\n[guest]\nprofile = \"shop\"\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("the guide has no configuration of a shop")
	}
	file := filepath.Join(t.TempDir(), "holdfast.toml")
	if err := os.WriteFile(file, []byte("[guest]\nprofile = \"shop\"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := defaultConfig()
	if _, err := conf.Load([]conf.Section{{Key: Name, Doc: "Guests.", Value: &c}}, conf.Options{File: file}); err != nil {
		t.Fatal(err)
	}
	if problems := c.Check(); len(problems) > 0 {
		t.Fatal(problems)
	}
	p := c.profile()
	if p.Name != "shop" || p.EventType("x.v1") != "shop.guest.x.v1" || !p.Texts || p.MaxQuantity != 99 || p.Payload == nil || p.Criteria == nil || len(p.Upstreams) != 2 || c.source("/general") != "/shop" {
		t.Errorf("%+v", p)
	}
}

func TestProfileProblems(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Profiles){
		"profile":                    func(c *Profiles) { c.Profile = "other" },
		"profiles.hotel":             func(c *Profiles) { c.Profiles["hotel"] = c.Profiles["shop"] },
		"profiles.S":                 func(c *Profiles) { c.Profiles["S"] = c.Profiles["shop"] },
		"profiles.shop.event_prefix": func(c *Profiles) { c.set(func(p *ProfileConfig) { p.EventPrefix = "shop" }) },
		"profiles.shop.items":        func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Items = "number" }) },
		"profiles.shop.max_quantity": func(c *Profiles) { c.set(func(p *ProfileConfig) { p.MaxQuantity = -1 }) },
		"profiles.hotel.attributes_limit": func(c *Profiles) {
			c.Profiles["hotel"] = ProfileConfig{SiteConfig: SiteConfig{AttributesLimit: -1}}
		},
		"profiles.shop.attributes_limit":  func(c *Profiles) { c.set(func(p *ProfileConfig) { p.AttributesLimit = 16<<10 + 1 }) },
		"profiles.shop.attributes_schema": func(c *Profiles) { c.set(func(p *ProfileConfig) { p.AttributesSchema = `{"type":"text"}` }) },
		"profiles.shop.user_keys":         func(c *Profiles) { c.set(func(p *ProfileConfig) { p.UserKeys = []string{"short"} }) },
		"profiles.shop.merge":             func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Merge = "mix" }) },
		"profiles.shop.criteria":          func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Criteria = "" }) },
		"profiles.shop.upstreams.S":       func(c *Profiles) { c.upstream("S", UpstreamConfig{URL: "http://a/"}) },
		"profiles.shop.upstreams.search": func(c *Profiles) {
			c.upstream("search", UpstreamConfig{URL: "http://a/", Path: []string{"itemId"}})
		},
		"profiles.shop.upstreams.a.url": func(c *Profiles) { c.upstream("a", UpstreamConfig{URL: "http://a/?b=c"}) },
		"profiles.shop.upstreams.a.path": func(c *Profiles) {
			c.upstream("a", UpstreamConfig{URL: "http://a/", Path: []string{"b"}, Parameters: []string{"b"}})
		},
		"profiles.shop.upstreams.a.fresh": func(c *Profiles) { c.upstream("a", UpstreamConfig{URL: "http://a/", Fresh: 25 * time.Hour}) },
		"profiles.shop.upstreams.a.stale": func(c *Profiles) { c.upstream("a", UpstreamConfig{URL: "http://a/", Stale: -1}) },
		"profiles.shop.origins":           func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Origins = []string{"*"} }) },
		"profiles.shop.cookie_domain":     func(c *Profiles) { c.set(func(p *ProfileConfig) { p.CookieDomain = ".example.com" }) },
		"profiles.shop.tenant":            func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Tenant = "t" }) },
		"profiles.shop.payload":           func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Payload = `{"type":"text"}` }) },
	} {
		c := Profiles{Profile: "shop", Profiles: map[string]ProfileConfig{"shop": {
			EventPrefix: "shop.guest.", Payload: "{}", Criteria: "{}", Upstreams: map[string]UpstreamConfig{"search": {URL: "https://catalogue.example/search"}},
		}}}
		if problems := c.Check(); len(problems) > 0 {
			t.Fatal(problems)
		}
		change(&c)
		if problems := c.Check(); len(problems) != 1 || problems[0].Key != want {
			t.Errorf("%v, want one of %s", problems, want)
		}
	}
}

func (c *Profiles) upstream(name string, u UpstreamConfig) { c.Profiles["shop"].Upstreams[name] = u }

func (c *Profiles) set(change func(*ProfileConfig)) {
	p := c.Profiles["shop"]
	change(&p)
	c.Profiles["shop"] = p
}
