package redis

import (
	"context"

	"github.com/redis/rueidis"

	"holdfast/internal/guest"
	"holdfast/internal/guest/bots"
)

// browserKeys returns the keys of the browser's request times, sessions and offences, and of the session's solved
// challenge.
func (h *Hot) browserKeys(browser string, session guest.ID) []string {
	b := tag(browser)
	return []string{h.prefix() + "bot:cadence:" + b, h.prefix() + "bot:fp-collisions:" + b, h.prefix() + "bot:offences:" + b, h.prefix() + "bot:solved:" + b + ":" + string(session)}
}

var (
	scriptSee = rueidis.NewLuaScript(now + `
local window, most = tonumber(ARGV[1]), tonumber(ARGV[2])
local first = redis.call('LINDEX', KEYS[1], 0)
while first and tonumber(first) <= now - window do
	redis.call('LPOP', KEYS[1])
	first = redis.call('LINDEX', KEYS[1], 0)
end
redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('LTRIM', KEYS[1], -most, -1)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[7] ~= '' then
	redis.call('ZADD', KEYS[2], string.format('%.0f', now), ARGV[7])
	redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now - tonumber(ARGV[4])))
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -tonumber(ARGV[5]) - 1)
local offences = redis.call('HMGET', KEYS[3], ARGV[8], ARGV[9])
return {redis.call('LLEN', KEYS[1]), redis.call('ZCARD', KEYS[2]), tonumber(offences[1] or 0), tonumber(offences[2] or 0), redis.call('EXISTS', KEYS[4])}`)
	scriptOffence = rueidis.NewLuaScript(`
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
)

// SeeBrowser implements bots.Hot.
func (h *Hot) SeeBrowser(ctx context.Context, s bots.Sighting) (seen bots.Sighted, err error) {
	args := []string{
		number(s.Events.Life.Microseconds()), number(int64(s.Events.Most)), millis(s.Events.Life),
		number(s.Members.Life.Microseconds()), number(int64(s.Members.Most)), millis(s.Members.Life),
		string(s.Session), bots.SignalHoneypot, bots.SignalReplay,
	}
	err = h.script(ctx, command{"see_browser", scriptSee, h.browserKeys(s.Browser, s.Session), args}, func(r rueidis.RedisResult) error {
		n, err := r.AsIntSlice()
		if err == nil {
			seen = bots.Sighted{Events: int(n[0]), Sessions: int(n[1]), Honeypots: int(n[2]), Replays: int(n[3]), Solved: n[4] == 1}
		}
		return err
	})
	return seen, err
}

// AddOffence implements bots.Hot.
func (h *Hot) AddOffence(ctx context.Context, browser, offence string) error {
	return h.script(ctx, command{"add_offence", scriptOffence, h.browserKeys(browser, "")[2:3], []string{offence, millis(bots.OffenceLife)}}, ignore)
}

// SolvedChallenge implements bots.Hot.
func (h *Hot) SolvedChallenge(ctx context.Context, browser string, session guest.ID) error {
	return h.run(ctx, "solved_challenge", func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Set().Key(h.browserKeys(browser, session)[3]).Value("1").PxMilliseconds(bots.SolvedLife.Milliseconds()).Build()).Error()
	})
}
