package console

import "testing"

// TestMeter checks that another byte on a disk does not change the page, and that small counts are exact.
func TestMeter(t *testing.T) {
	t.Parallel()
	shown := func(share, most float64) string {
		var p page
		p.meter(share, most, false, "Disk")
		return p.String()
	}
	const disk = 270_553_174_016
	if a, b := shown(230_959_865_856, disk), shown(230_959_865_857, disk); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if a, b := shown(disk/2, disk), shown(disk/2+disk/100, disk); a == b {
		t.Errorf("a hundredth does not change %s", a)
	}
	if a, b := shown(1, 256), shown(2, 256); a == b {
		t.Errorf("%s and %s", a, b)
	}
}
