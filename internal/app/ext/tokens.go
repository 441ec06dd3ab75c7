package ext

import (
	"context"
	"time"

	"holdfast/internal/app/service"
	ext "holdfast/internal/extstorage"
	"holdfast/internal/operate"
)

const (
	// revokeHelp ends the help of all revocations.
	revokeHelp = "Every running server refuses the token within a second. The revocation is kept until the token expires;\n" +
		"without an expiry, until all existing tokens expire."
)

// tokenOperations declares tokens for an install. Only revoked tokens are stored, so only these can be listed.
func (s *Extensions) tokenOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "tokens", Rows: "revoked", Doc: "List an install's revoked tokens that have not expired", Title: "Tokens", Empty: "No token is revoked.",
			Group: "Create and revoke install tokens", Text: "Revoked tokens that have not expired.",
		}, s.listTokens),
		operate.NewChange(operate.About{
			Path: "tokens/create", Doc: "Create a token for an install", Title: "Create a token", Button: "Create token",
			More: "The token is signed with the server's own key. It is valid for a single install and the named namespaces, with\n" +
				"access r (read), w (write) or rw.",
			Example: "--tenant $TENANT --install $INSTALL --namespace settings=rw --namespace log=r\n",
		}, s.createToken),
		operate.NewChange(operate.About{
			Path: "tokens/revoke", Doc: "Revoke a token", More: revokeHelp, Title: "Revoke a token", Button: "Revoke token", Danger: true,
			Text: "The token may belong to any install or to a service.", Example: "$TOKEN\n",
		}, s.revokeToken),
		operate.NewChange(operate.About{
			Path: "tokens/revoke-id", Doc: "Revoke an install token by its ID",
			Title: "Revoke a token by its ID", Button: "Revoke", Danger: true,
			More: "ID is the ID (jti) that an audit event or ext tokens create --json shows.\n" + revokeHelp, Example: "--tenant $TENANT --install $INSTALL --id $ID\n",
		}, s.revokeTokenID),
	}
}

// serviceTokenOperations declares tokens for services, which act for all installs of a tenant.
func (s *Extensions) serviceTokenOperations() []operate.Operation {
	return []operate.Operation{
		operate.NewList(operate.About{
			Access: operate.ForViewers, Path: "service-tokens", Rows: "revoked", Doc: "List a tenant's revoked service tokens that have not expired", Title: "Service tokens",
			Empty: "No token is revoked.", Group: "Create and revoke tokens for services that act for a tenant's installs",
			Text: "Revoked tokens that have not expired.",
		}, s.listServiceTokens),
		operate.NewChange(operate.About{
			Path: "service-tokens/create", Doc: "Create a token for a service that acts for installs",
			Title: "Create a token for a service", Text: "It is valid on the internal listener, for all the tenant's installs.", Button: "Create token",
			More: "The token is signed with the server's own key. It is valid on the internal listener only, for all the tenant's\n" +
				"installs; with --schemas it may also write schemas.",
			Example: "--tenant $TENANT --service runner --ttl 30d\n",
		}, s.createServiceToken),
		operate.NewChange(operate.About{
			Path: "service-tokens/revoke-id", Doc: "Revoke a service token by its ID",
			Title: "Revoke a token by its ID", Button: "Revoke", Danger: true,
			More: "ID is the ID (jti) that an audit event or ext service-tokens create --json shows.\n" + revokeHelp, Example: "--tenant $TENANT --id $ID\n",
		}, s.revokeServiceTokenID),
	}
}

// revokedOutput is a revoked token. Expires is when the revocation is forgotten, because the token has expired by then.
type revokedOutput struct {
	ID      string    `json:"id" title:"ID"`
	Revoked time.Time `json:"revokedAt" title:"Revoked"`
	Expires time.Time `json:"expiresAt" title:"Expires"`
}

func (t revokedOutput) Notice() string {
	return "revoked token " + t.ID + "; it expires at " + service.FormatMillis(t.Expires.UnixMilli())
}

// listTokens returns an install's revoked tokens.
func (s *Extensions) listTokens(ctx context.Context, in installInput) ([]revokedOutput, error) {
	o, err := in.owner()
	if err != nil {
		return nil, err
	}
	return s.revokedTokens(ctx, o)
}

// listServiceTokens returns a tenant's revoked service tokens.
func (s *Extensions) listServiceTokens(ctx context.Context, in tenantInput) ([]revokedOutput, error) {
	o, err := in.owner()
	if err != nil {
		return nil, err
	}
	return s.revokedTokens(ctx, ext.Services(o.Tenant))
}

// revokedTokens returns the tokens of an owner; ext.Services names a tenant's services.
func (s *Extensions) revokedTokens(ctx context.Context, o ext.Owner) (all []revokedOutput, err error) {
	open, err := s.ready()
	if err != nil {
		return nil, err
	}
	revoked, err := open.RevokedTokens(ctx, o)
	for _, t := range revoked {
		all = append(all, revokedOutput{t.ID, service.TimeOf(t.RevokedAt), service.TimeOf(t.ExpiresAt)})
	}
	return all, err
}

// createTokenInput names an install, which need not exist yet.
type createTokenInput struct {
	Tenant     string   `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
	Install    string   `subject:"install,flag" value:"UUID" doc:"install UUID" example:"7e000000-0000-4000-8000-000000000011"`
	Namespaces []string `flag:"namespace" value:"NS=ACCESS" doc:"required: access to a namespace, as NS=ACCESS, e.g. settings=rw; repeatable"`
	operate.Lifetime
}

// request parses the input. At least one namespace is required, because a token without access is a mistake.
func (in createTokenInput) request() (r tokenRequest, err error) {
	if r.Owner, err = (installInput{in.Tenant, in.Install}).owner(); err != nil {
		return r, err
	}
	if len(in.Namespaces) == 0 {
		return r, &operate.InputError{Input: "namespace", Reason: "required: expected at least one namespace, e.g. settings=rw"}
	}
	r.Namespaces, err = parseWords(in.Namespaces, false)
	r.Lifetime = in.Lifetime
	return r, err
}

func (in createTokenInput) Check() error {
	_, err := in.request()
	return err
}

// createServiceTokenInput names the service, which appears in the audit.
type createServiceTokenInput struct {
	Tenant  string `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
	Service string `flag:"service" value:"NAME" doc:"service NAME, 1 to 64 characters from a-z, 0-9 and -"`
	Schemas bool   `flag:"schemas" doc:"allow registering and activating schemas"`
	operate.Lifetime
}

// request parses the input.
func (in createServiceTokenInput) request() (r tokenRequest, err error) {
	if r.Owner, err = (tenantInput{in.Tenant}).owner(); err != nil {
		return r, err
	}
	if in.Service == "" {
		return r, &operate.InputError{Input: "service", Reason: "must not be empty"}
	}
	r.Service, r.Schemas, r.Lifetime = in.Service, in.Schemas, in.Lifetime
	return r, nil
}

func (in createServiceTokenInput) Check() error {
	_, err := in.request()
	return err
}

// tokenOutput is a new token, which is not stored.
type tokenOutput struct {
	Token   string    `json:"token" title:"Token" secret:"The token is shown only once." qr:"The token as a QR code"`
	ID      string    `json:"id" title:"ID" subject:"id" aside:"" doc:"token ID in the audit log"`
	Expires time.Time `json:"expires" title:"Expires" aside:""`
	URL     string    `json:"url,omitempty" title:"URL" aside:"" doc:"URL to use it at, unless this server does not listen there"`
}

// Notice is "", so that the token is shown.
func (tokenOutput) Notice() string { return "" }

// createToken creates an install's token.
func (s *Extensions) createToken(_ context.Context, in createTokenInput) (tokenOutput, error) {
	r, err := in.request()
	if err != nil {
		return tokenOutput{}, err
	}
	return s.makeToken(r)
}

// createServiceToken creates a service's token.
func (s *Extensions) createServiceToken(_ context.Context, in createServiceTokenInput) (tokenOutput, error) {
	r, err := in.request()
	if err != nil {
		return tokenOutput{}, err
	}
	return s.makeToken(r)
}

// revokeInput is a whole token, which is a secret: it is neither logged nor shown.
type revokeInput struct {
	Token string `flag:"token" arg:"TOKEN" secret:"" doc:"the token"`
}

// Check does not verify the token, because that needs the keys; revocation.read does.
func (in revokeInput) Check() error {
	if in.Token == "" {
		return &operate.InputError{Input: "token", Reason: "must not be empty"}
	}
	return nil
}

// revokeToken revokes a token of any kind, without knowing its owner.
func (s *Extensions) revokeToken(ctx context.Context, in revokeInput) (revokedOutput, error) {
	if _, err := s.ready(); err != nil {
		return revokedOutput{}, err
	}
	var r revocation
	if err := r.read(s, in.Token); err != nil {
		return revokedOutput{}, err
	}
	return s.revoke(ctx, r)
}

// revokeIDInput names an install's token by its ID. If Expires is not given, the revocation is kept as long as a token
// could live.
type revokeIDInput struct {
	Tenant  string `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
	Install string `subject:"install,flag" value:"UUID" doc:"install UUID" example:"7e000000-0000-4000-8000-000000000011"`
	ID      string `subject:"id,flag" value:"ID" doc:"token ID (jti)"`
	Expires string `flag:"expires" value:"TIME" doc:"TIME when the token expires, e.g. 2026-11-21T15:04:05Z"`
}

// revokeTokenID does not verify that the token exists: the server keeps no list of tokens.
func (s *Extensions) revokeTokenID(ctx context.Context, in revokeIDInput) (revokedOutput, error) {
	o, err := installInput{in.Tenant, in.Install}.owner()
	if err != nil {
		return revokedOutput{}, err
	}
	return s.revokeID(ctx, o, in.ID, in.Expires)
}

// revokeServiceIDInput names a service's token by its ID.
type revokeServiceIDInput struct {
	Tenant  string `subject:"tenant,flag" value:"UUID" doc:"tenant UUID" example:"7e000000-0000-4000-8000-000000000001"`
	ID      string `subject:"id,flag" value:"ID" doc:"token ID (jti)"`
	Expires string `flag:"expires" value:"TIME" doc:"TIME when the token expires, e.g. 2026-11-21T15:04:05Z"`
}

// revokeServiceTokenID is revokeTokenID for service tokens.
func (s *Extensions) revokeServiceTokenID(ctx context.Context, in revokeServiceIDInput) (revokedOutput, error) {
	o, err := tenantInput{in.Tenant}.owner()
	if err != nil {
		return revokedOutput{}, err
	}
	return s.revokeID(ctx, ext.Services(o.Tenant), in.ID, in.Expires)
}

// revokeID parses the time until which the revocation is kept.
func (s *Extensions) revokeID(ctx context.Context, o ext.Owner, id, expires string) (revokedOutput, error) {
	until, err := parseTime("expires", expires)
	if err != nil {
		return revokedOutput{}, err
	}
	return s.revoke(ctx, revocation{o, id, until})
}

// revoke stores a revocation. Revoking a token again may only extend it.
func (s *Extensions) revoke(ctx context.Context, r revocation) (revokedOutput, error) {
	open, err := s.ready()
	if err != nil {
		return revokedOutput{}, err
	}
	t, err := open.RevokeToken(ctx, r.owner, r.id, r.expires)
	return revokedOutput{t.ID, service.TimeOf(t.RevokedAt), service.TimeOf(t.ExpiresAt)}, aboutInput(err)
}
