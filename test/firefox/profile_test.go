package firefox

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeProfile creates a browser profile that signs in at accounts, syncs with the tokenserver at storage and reaches
// both through wire. It disables background activity that Marionette leaves enabled.
func writeProfile(dir, accounts, storage string, wire *net.TCPAddr) error {
	prefs := map[string]any{
		"identity.fxaccounts.allowHttp":          true,
		"identity.fxaccounts.auth.uri":           accounts + "/v1",
		"identity.fxaccounts.remote.root":        accounts + "/",
		"identity.fxaccounts.remote.oauth.uri":   accounts + "/v1",
		"identity.fxaccounts.remote.profile.uri": accounts + "/v1",
		"identity.sync.tokenserver.uri":          storage + "/1.0/sync/1.5",

		"marionette.port": 0, // any free port, which the browser prints

		"network.proxy.type":                      1,
		"network.proxy.http":                      wire.IP.String(),
		"network.proxy.http_port":                 wire.Port,
		"network.proxy.ssl":                       wire.IP.String(),
		"network.proxy.ssl_port":                  wire.Port,
		"network.proxy.allow_hijacking_localhost": true,
		"network.proxy.failover_direct":           false,
		"network.trr.mode":                        5, // no DNS over HTTPS

		// This prevents syncs after a sign-in or a message from another device: the test decides when to sync.
		"services.sync.testing.tps": true,
		// This prevents validation, which downloads everything again in a tenth of all syncs.
		"services.sync.engine.bookmarks.validation.percentageChance": 0,
		"services.sync.engine.passwords.validation.percentageChance": 0,
		"services.sync.log.logger":                                   "Trace",
		"services.sync.log.logger.engine":                            "Trace",
		"services.sync.log.appender.file.logOnSuccess":               true,

		"app.normandy.enabled":                            false,
		"app.shield.optoutstudies.enabled":                false,
		"app.update.auto":                                 false,
		"browser.aboutwelcome.enabled":                    false,
		"browser.newtabpage.enabled":                      false,
		"browser.startup.homepage":                        "about:blank",
		"browser.startup.page":                            0,
		"dom.push.enabled":                                false,
		"dom.security.https_first":                        false,
		"extensions.blocklist.enabled":                    false,
		"media.gmp-manager.updateEnabled":                 false,
		"network.dns.disablePrefetch":                     true,
		"network.http.speculative-parallel-limit":         0,
		"network.predictor.enabled":                       false,
		"network.prefetch-next":                           false,
		"messaging-system.rsexperimentloader.enabled":     false,
		"security.OCSP.enabled":                           0,
		"toolkit.telemetry.enabled":                       false,
		"toolkit.telemetry.unified":                       false,
		"browser.safebrowsing.update.enabled":             false,
		"browser.safebrowsing.provider.google4.updateURL": "",
		"browser.safebrowsing.provider.mozilla.updateURL": "",
	}
	var js strings.Builder
	for _, name := range slices.Sorted(maps.Keys(prefs)) {
		value, err := json.Marshal(prefs[name])
		if err != nil {
			return fmt.Errorf("preference %s: %w", name, err)
		}
		fmt.Fprintf(&js, "user_pref(%q, %s);\n", name, value)
	}
	return os.WriteFile(filepath.Join(dir, "user.js"), []byte(js.String()), 0o600)
}
