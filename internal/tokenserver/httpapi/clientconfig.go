package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"holdfast/internal/web"
)

// clientConfiguration answers with the members that clients read. Firefox on desktops appends /v1 to the accounts
// servers' URLs and /1.0/sync/1.5 to the tokenserver's; Firefox for Android and iOS append a slash and the path. All of
// them fail without one of the four "server_base_url" members.
func (h *Handler) clientConfiguration(w http.ResponseWriter, at web.Address) error {
	servers := h.Service.Config().AccountsServers()
	body, err := json.Marshal(struct {
		Auth        string `json:"auth_server_base_url"`
		OAuth       string `json:"oauth_server_base_url"`
		Pairing     string `json:"pairing_server_base_uri,omitempty"`
		Profile     string `json:"profile_server_base_url"`
		Tokenserver string `json:"sync_tokenserver_base_url"`
	}{servers.Auth, servers.OAuth, servers.Pairing, servers.Profile, at.Origin.String()})
	if err != nil {
		return fmt.Errorf("encode the client configuration: %w", err)
	}
	send(w, http.StatusOK, body)
	return nil
}
