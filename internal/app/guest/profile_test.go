package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/internal/conf"
)

// TestShopOfTheGuide: the configuration in the guide is that of a shop.
func TestShopOfTheGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "guest.md"))
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
	if p.Name != "shop" || p.EventType("x.v1") != "shop.guest.x.v1" || !p.Texts || p.MaxQuantity != 99 || p.Payload == nil || c.source("/general") != "/shop" {
		t.Errorf("%+v", p)
	}
}

// TestProfileProblems: each wrong setting of a profile is named.
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
		"profiles.shop.tenant":            func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Tenant = "t" }) },
		"profiles.shop.payload":           func(c *Profiles) { c.set(func(p *ProfileConfig) { p.Payload = `{"type":"text"}` }) },
	} {
		c := Profiles{Profile: "shop", Profiles: map[string]ProfileConfig{"shop": {EventPrefix: "shop.guest.", Payload: "{}"}}}
		if problems := c.Check(); len(problems) > 0 {
			t.Fatal(problems)
		}
		change(&c)
		if problems := c.Check(); len(problems) != 1 || problems[0].Key != want {
			t.Errorf("%v, want one of %s", problems, want)
		}
	}
}

func (c *Profiles) set(change func(*ProfileConfig)) {
	p := c.Profiles["shop"]
	change(&p)
	c.Profiles["shop"] = p
}
