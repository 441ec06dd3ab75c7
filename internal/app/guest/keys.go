package guest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"holdfast/internal/guest/handoffs"
	"holdfast/internal/operate"
)

// keyOperations declares the HMAC keys, which all tenants share; see tenantKeyOperations for Ed25519.
func (s *Guest) keyOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "keys", Doc: "List the keys", Title: "Handoff keys", Empty: "There are no keys.",
			Group: "Manage the keys that sign handoffs",
			Long: "Manage the keys that sign handoff tokens. Running servers apply every change at once. To rotate keys without\n" +
				"interrupting sites that verify tokens offline: add a key, export the keys to those sites, activate the key,\n" +
				"and retire the old key when its tokens have expired.",
			Text: "The active key signs handoff tokens, and keys that are not retired verify them. To rotate keys without an interruption, add a key, give it to the sites that verify offline (holdfast guest keys export), activate it, and retire the old key when its tokens have expired.",
		}, s.listKeys),
		operate.NewChange(operate.About{Path: "keys/add", Doc: "Add a key that verifies, but does not sign yet", Button: "Add a key"}, s.onKeys((*handoffs.Keys).Add)),
		operate.NewChange(operate.About{
			Path: "keys/rotate", Doc: "Add a key and activate it at once", Button: "Add and activate a key",
			Ask: "Sites that verify offline refuse handoffs until they get the new key.",
		}, s.onKeys((*handoffs.Keys).Rotate)),
		operate.NewChange(operate.About{Path: "keys/activate", Doc: "Sign with a key; the previous key only verifies"}, s.onKey((*handoffs.Keys).Activate)),
		operate.NewChange(operate.About{Path: "keys/retire", Doc: "Retire a key whose tokens have all expired"}, s.onKey((*handoffs.Keys).Retire)),
		operate.NewChange(operate.About{
			Path: "keys/revoke", Doc: "Void all a key's tokens at once, e.g. after a leak", Danger: true,
			Ask: "All the key's tokens are void at once. An active key is replaced with a new key, which sites that verify offline do not know yet.",
		}, s.onKey((*handoffs.Keys).Revoke)),
		operate.NewChange(operate.About{
			Path: "keys/revoke-all", Doc: "Void all tokens at once, e.g. after a restore", Title: "Revoke all keys",
			Text: "All tokens are void at once, e.g. after a leak.", Button: "Revoke all keys", Danger: true, Confirm: "revoke all",
		}, s.revokeKeys),
		operate.NewDownload(operate.About{
			Path: "keys/export", Doc: "Print the keys with their secrets, for sites that verify tokens offline", Button: "Export the keys with their secrets",
			Access: operate.ForAdmins, Media: operate.Lines, Secret: true,
			More: "Prints a JSON line for each key that is not retired. A key can sign tokens: protect it like a password. A site\n" +
				"must consume a token after verifying it offline, because the token may already be used.",
		}, s.exportKeys),
	}
}

// exportedKey is a line in the export, in the format that client/handoff reads.
type exportedKey struct {
	ID        string    `json:"id"`
	Secret    string    `json:"secret"` // base64
	NotBefore time.Time `json:"notBefore"`
}

// exportKeys reads the keys before the download begins, so that an error can still be answered.
func (s *Guest) exportKeys(ctx context.Context, _ operate.None, _ operate.Progress) (f operate.File, err error) {
	h, err := s.ready()
	if err != nil {
		return f, err
	}
	all, err := h.Keys.Export(ctx)
	return operate.File{Name: "handoff-keys.ndjson", Write: func(to io.Writer) error {
		lines := json.NewEncoder(to)
		for _, k := range all {
			//nolint:gosec // the export is for another process that signs handoffs
			if err := lines.Encode(exportedKey{k.ID, base64.StdEncoding.EncodeToString(k.Secret), k.NotBefore}); err != nil {
				return err
			}
		}
		return nil
	}}, err
}

type keyInput struct {
	Key string `subject:"key" doc:"key ID"`
}

// keyOutput is a key without its secret. NotAfter is when another key replaced it; RetiredAt when it stopped verifying.
type keyOutput struct {
	ID        string            `json:"id" title:"Key" subject:"key" example:"0b9a4e2f7c1d4a53"`
	State     handoffs.KeyState `json:"state" title:"State" enum:"active,verify-only,retired"`
	NotBefore time.Time         `json:"notBefore" title:"Added"`
	NotAfter  time.Time         `json:"notAfter,omitzero" title:"Replaced"`
	RetiredAt time.Time         `json:"retiredAt,omitzero" title:"Retired"`
}

// outputOf leaves out the secret.
func outputOf(k handoffs.Key) keyOutput {
	return keyOutput{k.ID, k.State, k.NotBefore, k.NotAfter, k.Retired}
}

// Notice says the new state; every change of a single key uses it.
func (k keyOutput) Notice() string { return fmt.Sprintf("key %s is %s", k.ID, k.State) }

// Offers all changes for keys that only verify. An active key can only be revoked, because a new key must replace it.
func (k keyOutput) Offers(verb string) bool {
	return k.State == handoffs.KeyVerifyOnly || k.State == handoffs.KeyActive && verb == "revoke"
}

// listKeys returns the oldest key first, with retired keys.
func (s *Guest) listKeys(ctx context.Context, _ operate.None) (all []keyOutput, err error) {
	h, err := s.ready()
	if err != nil {
		return nil, err
	}
	keys, err := h.Keys.List(ctx)
	for _, k := range keys {
		all = append(all, outputOf(k))
	}
	return all, err
}

// revokedKeys is the new active key, with another notice.
type revokedKeys keyOutput

func (k revokedKeys) Notice() string {
	return fmt.Sprintf("all keys are revoked; the new key %s is active", k.ID)
}

// revokeKeys voids all tokens, also those signed with tenants' Ed25519 keys.
func (s *Guest) revokeKeys(ctx context.Context, in operate.None) (revokedKeys, error) {
	key, err := s.onKeys((*handoffs.Keys).RevokeAll)(ctx, in)
	return revokedKeys(key), err
}

// onKey makes an operation of a change to a named key. It returns the key after the change.
func (s *Guest) onKey(do func(*handoffs.Keys, context.Context, string) (handoffs.Key, error)) func(context.Context, keyInput) (keyOutput, error) {
	return func(ctx context.Context, in keyInput) (keyOutput, error) {
		h, err := s.ready()
		if err != nil {
			return keyOutput{}, err
		}
		key, err := do(h.Keys, ctx, in.Key)
		return outputOf(key), err
	}
}

// onKeys makes an operation of a change without a named key. It returns the added key.
func (s *Guest) onKeys(do func(*handoffs.Keys, context.Context) (handoffs.Key, error)) func(context.Context, operate.None) (keyOutput, error) {
	return func(ctx context.Context, _ operate.None) (keyOutput, error) {
		h, err := s.ready()
		if err != nil {
			return keyOutput{}, err
		}
		key, err := do(h.Keys, ctx)
		return outputOf(key), err
	}
}
