/* The rules about peers that were gone for others: who died of what, who left, and who was alive all the time, but
 * cut off. What the others saw is put together with what the peer's own journal says. */
#include "tools/godwit/why/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What several peers see within this time is one thing. */
#define TOGETHER_S 10.0
/* Peers notice an end up to so much before the clock of the one that ended says so. */
#define SKEW_S 1.0
/* News of an end may come so much after the next life has begun. */
#define LATE_S 3.0
/* A peer that stood still is missed while it does, and misses others a moment after it. */
#define AFTER_S 0.5
/* Who comes, gives up so soon, and comes again so soon, was turned away: it is one event. */
#define TURNED_AWAY_S 20.0

/* One peer's news that another one is gone. */
static bool is_sighting(const gw_why_record *record, const gw_why_event *event) {
    return event->kind == GW_WHY_PEER && event->peer != GW_WHY_NONE && strcmp(event->word, "alive") != 0 &&
           record->journals[event->journal].peer != event->peer;
}

static bool word_is(const char *word, const char *other) {
    return strcmp(word, other) == 0;
}

/* Whether the one that tells of a sighting had seen the peer alive between a moment and then. */
static bool had_seen(const gw_why_record *record, const gw_why_event *sighting, double since) {
    for (size_t i = gw_why_from(record, since); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->time >= sighting->time) break;
        if (event->kind == GW_WHY_PEER && event->journal == sighting->journal &&
            event->peer == sighting->peer && word_is(event->word, "alive"))
            return true;
    }
    return false;
}

/* Whether news that a peer is gone is of the end of this life. They may come when the next one has begun. */
static bool tells_end(const gw_why_record *record, const gw_why_life *life, const gw_why_event *sighting) {
    if (sighting->time < life->last - SKEW_S) return false;
    if (life->next == 0 || sighting->time <= life->next) return true;
    double until = life->next + (word_is(sighting->text, "restarted") ? TOGETHER_S : LATE_S);
    return sighting->time <= until && !had_seen(record, sighting, life->next);
}

/* When each peer was last seen to be alive; 0: never. The caller frees the list; NULL: memory runs out. */
static double *last_alive(const gw_why_record *record) {
    double *alive = calloc((size_t)record->peer_count + 1, sizeof *alive);
    for (size_t i = 0; alive != NULL && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind == GW_WHY_PEER && event->peer != GW_WHY_NONE && word_is(event->word, "alive"))
            alive[event->peer] = event->time;
    }
    return alive;
}

/* The life that a sighting names by its number, from `life` back; NULL: it names none that is known. */
static const gw_why_life *named_life(const gw_why_life *life, const gw_why_life *first,
                                     const gw_why_event *sighting) {
    for (; sighting->number > 0 && life->boot > 0; life--) {
        if (life->boot == sighting->number) return life;
        if (life == first) break;
    }
    return NULL;
}

/* The life of a peer whose end a sighting tells of; NULL: it tells of none whose journal is here. A life that has
 * not ended as far as its journal says, and that was seen again, goes on. */
static const gw_why_life *ended_life(const gw_why_record *record, const double *alive,
                                     const gw_why_event *sighting) {
    const gw_why_life *life = gw_why_life_at(record, sighting->peer, sighting->time);
    if (life == NULL) return NULL;
    const gw_why_life *first = record->lives + record->journals[life->journal].first_life;
    const gw_why_life *named = named_life(life, first, sighting);
    if (named == NULL && life > first && tells_end(record, life - 1, sighting)) return life - 1;
    if (named != NULL) life = named;
    if (named != NULL ? sighting->time < life->last - SKEW_S : !tells_end(record, life, sighting))
        return NULL;
    bool goes_on = life->next == 0 && life->end[0] == '\0' && alive[sighting->peer] > sighting->time;
    return goes_on ? NULL : life;
}

/* What others saw of one end. */
typedef struct sightings {
    gw_why_set by;
    double first, last; /* 0: nobody saw it */
    double proof;       /* when somebody first knew more than that it did not answer; 0: nobody did */
    bool refused, silent, restarted, gave_up, left;
    bool turned_away; /* it gave up at once each time, and was in no view */
    double silent_s;  /* the longest silence */
    int witness;      /* the journal that saw it first */
    uint32_t times;   /* that this journal saw it */
} sightings;

static void see(sightings *all, const gw_why_record *record, const gw_why_event *event) {
    gw_why_set_add(&all->by, record->journals[event->journal].peer);
    if (all->times == 0) all->witness = event->journal;
    all->times += event->journal == all->witness;
    if (all->first == 0 || event->time < all->first) all->first = event->time;
    if (event->time > all->last) all->last = event->time;
    bool proof = word_is(event->word, "dead") || word_is(event->word, "left");
    if (proof && all->proof == 0) all->proof = event->time;
    all->refused |= word_is(event->text, "refused");
    all->silent |= word_is(event->text, "silent") || word_is(event->word, "unreachable");
    all->restarted |= word_is(event->text, "restarted");
    all->gave_up |= word_is(event->text, "gave-up");
    all->left |= word_is(event->word, "left");
    if (event->value * 1e-3 > all->silent_s) all->silent_s = event->value * 1e-3;
}

/* What was seen of the ends of all lives, by their places in the record. The caller frees it; NULL: memory runs
 * out. */
static sightings *see_ends(const gw_why_record *record) {
    double *alive = last_alive(record);
    sightings *ends = calloc(record->life_count + 1, sizeof *ends);
    for (size_t i = 0; alive != NULL && ends != NULL && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        const gw_why_life *life = is_sighting(record, event) ? ended_life(record, alive, event) : NULL;
        if (life != NULL) see(&ends[life - record->lives], record, event);
    }
    free(alive);
    return ends;
}

/* Texts. */

static void write_evidence(const gw_why_record *record, const sightings *seen, gw_finding *finding) {
    char who[GW_WHY_LIST], span[GW_WHY_SPAN];
    if (seen->first == 0) {
        snprintf(finding->evidence, sizeof finding->evidence, "No other peer has seen it end.");
        return;
    }
    const char *what = seen->refused     ? "its host refuses connections"
                       : seen->restarted ? "another process of it has begun"
                       : seen->gave_up   ? "it said that it cannot go on"
                       : seen->left      ? "it took leave"
                                         : "it does not answer";
    char silence[60] = "";
    if (seen->silent_s >= 0.05)
        snprintf(silence, sizeof silence, ", after %s of silence", gw_why_span(seen->silent_s, span));
    snprintf(finding->evidence, sizeof finding->evidence, "Seen by %s: %s%s.",
             gw_why_list(record, &seen->by, who), what, silence);
}

/* What to do about an end. */
static const char *advice_of(const gw_why_life *life) {
    static const struct {
        const char *end, *advice;
    } table[] = {
        {"memory", "Give the peer more memory, or the job less: fewer --workers, a smaller model or batch."},
        {"crashed", "The log has the stack of the crash: report it with the line 'godwit --version' prints."},
        {"machine", "See to the machine: its own log (journalctl -b -1) says why it went down."},
        {"killed", "Ask the supervisor or the scheduler of that node (journalctl, sacct) who killed it."},
        {"gave-up", "Do what its last words say; a hang comes from a disk, a GPU or a stuck program."},
        {"done", "Do what the message says, and start the peer again with the same command."},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (word_is(life->end, table[i].end)) return table[i].advice;
    return "Look at that node, and start the peer again with the same command.";
}

static void write_return(const gw_why_life *life, double gone, char *text, size_t size) {
    char span[GW_WHY_SPAN];
    if (life->next > gone)
        snprintf(text, size, " It was started again after %s.", gw_why_span(life->next - gone, span));
    else if (life->next > 0)
        snprintf(text, size, " It was started again at once.");
    else
        snprintf(text, size, " It has not been started again.");
}

static void write_death(const gw_why_record *record, const gw_why_life *life, gw_finding *finding) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], back[80], what[GW_WHY_END];
    gw_why_called(record, life->peer, name);
    gw_why_end(life, what);
    write_return(life, finding->from, back, sizeof back);
    snprintf(finding->text, sizeof finding->text, "%s %s. It had run for %s%s", name, what,
             gw_why_span(finding->from - life->began, span), ".");
    size_t length = strlen(finding->text);
    snprintf(finding->text + length, sizeof finding->text - length, "%s", back);
    snprintf(finding->advice, sizeof finding->advice, "%s", advice_of(life));
}

/* Deaths of peers whose journals are here. */

/* An end that nobody asked for. */
typedef struct death {
    const gw_why_life *life;
    sightings seen;
    double time, latest; /* when it was, or must have been by: between the last event and the next life */
} death;

static bool find_death(const gw_why_life *life, const sightings *seen, death *found) {
    if (life->peer == GW_WHY_NONE || gw_why_wanted(life) || gw_why_turned_away(life)) return false;
    *found = (death){.life = life, .seen = *seen};
    /* The last line of a journal is no end where nobody has missed the peer. */
    if (life->end[0] == '\0' && (life->next != 0 || found->seen.first == 0)) return false;
    /* Where it merely fell silent, and nothing is known of a later time, it may still run. */
    bool ended = life->end[0] != '\0' || found->seen.refused || found->seen.restarted || found->seen.gave_up;
    if (!ended && found->seen.last < life->last + SKEW_S) return false;
    found->time = found->seen.first != 0 ? found->seen.first : life->last;
    if (found->time < life->last) found->time = life->last;
    found->latest = life->next != 0 ? life->next : found->time;
    return true;
}

/* Whether all deaths can have been one event: nobody saw any of them, and while they were, no other peer lived on
 * whose journal is here. */
static size_t one_event(const gw_why_record *record, const death *deaths, size_t count, size_t first) {
    double from = deaths[first].time, to = deaths[first].latest;
    size_t last = first;
    while (last < count && deaths[last].seen.first == 0 && deaths[last].time <= to) {
        if (deaths[last].time > from) from = deaths[last].time;
        if (deaths[last].latest < to) to = deaths[last].latest;
        last++;
    }
    if (last - first < 2) return 1;
    for (size_t i = 0; i < record->life_count; i++) {
        const gw_why_life *life = &record->lives[i];
        bool among = false;
        for (size_t k = first; k < last; k++) among |= deaths[k].life == life;
        if (!among && life->began < from && life->last > to) return 1;
    }
    return last - first;
}

static void tell_all(const gw_why_record *record, const death *deaths, size_t count, gw_findings *findings) {
    char who[GW_WHY_LIST];
    gw_finding *finding =
        gw_findings_add(findings, "all-ended", deaths[count - 1].time, deaths[count - 1].time);
    if (finding == NULL) return;
    bool machine = true, killed = true;
    double latest = deaths[0].latest;
    for (size_t i = 0; i < count; i++) {
        gw_why_set_add(&finding->peers, deaths[i].life->peer);
        machine &= word_is(deaths[i].life->end, "machine");
        killed &= word_is(deaths[i].life->end, "killed");
        if (deaths[i].latest < latest) latest = deaths[i].latest;
        if (deaths[i].life->step > finding->step) finding->step = deaths[i].life->step;
    }
    finding->to = latest > finding->from ? latest : finding->from;
    snprintf(finding->text, sizeof finding->text, "All peers ended at once: %s %s.",
             gw_why_list(record, &finding->peers, who),
             machine  ? "went down with their machines"
             : killed ? "were killed without a word (SIGKILL)"
                      : "ended without seeing each other end");
    snprintf(finding->evidence, sizeof finding->evidence,
             "No peer has seen another one end, and none has lived on.");
    snprintf(finding->advice, sizeof finding->advice, "%s",
             machine ? "See to the power of the machines; the peers go on from their checkpoints."
                     : "Ask the scheduler: a time limit, or a command to all nodes, ends all at once.");
}

static void tell_death(const gw_why_record *record, const death *one, gw_findings *findings) {
    gw_finding *finding = gw_findings_add(findings, "death", one->time, one->time);
    if (finding == NULL) return;
    gw_why_set_add(&finding->peers, one->life->peer);
    finding->step = one->life->step;
    write_death(record, one->life, finding);
    write_evidence(record, &one->seen, finding);
    gw_finding_charge(record, finding);
}

static int by_time(const void *a, const void *b) {
    double left = ((const death *)a)->time, right = ((const death *)b)->time;
    return left < right ? -1 : left > right;
}

/* The most deaths that are told, the last of all: each costs a look at the events behind it. */
enum { DEATHS = 5000 };

static void tell_known(const gw_why_record *record, gw_findings *findings) {
    death *deaths = calloc(record->life_count + 1, sizeof *deaths);
    sightings *ends = see_ends(record);
    size_t count = 0;
    for (size_t i = 0; deaths != NULL && ends != NULL && i < record->life_count && count < GW_FINDINGS_MOST;
         i++)
        count += find_death(&record->lives[i], &ends[i], &deaths[count]);
    if (count > 0) qsort(deaths, count, sizeof *deaths, by_time);
    for (size_t i = count > DEATHS ? count - DEATHS : 0; i < count;) {
        size_t together = one_event(record, deaths, count, i);
        if (together > 1)
            tell_all(record, deaths + i, together, findings);
        else
            tell_death(record, &deaths[i], findings);
        i += together;
    }
    free(ends);
    free(deaths);
}

/* Peers without a journal here. */

/* Whether the peer came back, as somebody saw. */
static double seen_alive(const gw_why_record *record, int peer, double after) {
    for (size_t i = gw_why_from(record, after); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind == GW_WHY_PEER && event->peer == peer && event->time > after &&
            word_is(event->word, "alive"))
            return event->time;
    }
    return 0;
}

/* A peer of the same name that was first seen soon after: its directory was lost or emptied, and with it its id. */
static int heir_of(const gw_why_record *record, int peer, double after) {
    const char *name = record->peers[peer].name, *address = record->peers[peer].address;
    for (size_t i = gw_why_from(record, after); i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind != GW_WHY_PEER || event->peer == GW_WHY_NONE) continue;
        const gw_why_peer *other = &record->peers[event->peer];
        if (event->peer == peer || !word_is(event->word, "alive") || strcmp(other->name, name) != 0) continue;
        if (address[0] != '\0' && strcmp(other->address, address) == 0) return event->peer;
    }
    return GW_WHY_NONE;
}

static void write_unknown(const gw_why_record *record, int peer, const sightings *seen, gw_finding *finding) {
    char name[GW_WHY_CALLED], span[GW_WHY_SPAN], often[GW_WHY_OFTEN], back[200] = "";
    double alive = seen_alive(record, peer, seen->last);
    int heir = alive == 0 ? heir_of(record, peer, seen->first) : GW_WHY_NONE;
    gw_why_called(record, peer, name);
    const char *what = seen->turned_away
                           ? "came and left again at once: it was turned away, or could not begin"
                       : seen->gave_up                    ? "gave up"
                       : seen->left                       ? "left, as it was asked to"
                       : seen->refused || seen->restarted ? "ended: its process is gone"
                                                          : "was out of reach: its host, its process or the "
                                                            "network between has stopped";
    if (seen->turned_away)
        snprintf(back, sizeof back, " It did so %s.", gw_why_times(seen->times, often));
    else if (alive != 0)
        snprintf(back, sizeof back, " It was back after %s.", gw_why_span(alive - seen->first, span));
    else if (heir != GW_WHY_NONE)
        snprintf(back, sizeof back,
                 " A peer with another id came in its place, as with an empty directory: its own was lost.");
    snprintf(finding->text, sizeof finding->text, "%s %s.%s", name, what, back);
    if (seen->turned_away)
        snprintf(
            finding->advice, sizeof finding->advice,
            "Look at what it wrote when it was started, and give its directory to 'godwit why' as well.");
    else if (!seen->left || seen->gave_up)
        snprintf(finding->advice, sizeof finding->advice,
                 "Give its directory to 'godwit why' as well: its journal says how it ended.");
}

static void tell_unknown(const gw_why_record *record, int peer, const sightings *seen,
                         gw_findings *findings) {
    bool died = (seen->gave_up && !seen->turned_away) || (!seen->left && (seen->refused || seen->restarted));
    gw_finding *finding = gw_findings_add(findings,
                                          died                ? "death"
                                          : seen->turned_away ? "refused"
                                          : seen->left        ? "left"
                                                              : "unreachable",
                                          seen->first, seen->last);
    if (finding == NULL) return;
    if (seen->turned_away) finding->times = seen->times;
    /* It may have been out of reach before. */
    if (died && seen->proof > seen->first) finding->from = seen->proof;
    gw_why_set_add(&finding->peers, peer);
    write_unknown(record, peer, seen, finding);
    write_evidence(record, seen, finding);
    gw_finding_charge(record, finding);
}

/* Whether news are of a peer that came a moment before, gave up at once, and was in no view. */
static bool is_turned_away(const gw_why_record *record, const gw_why_event *sighting) {
    return word_is(sighting->text, "gave-up") && !record->peers[sighting->peer].member &&
           had_seen(record, sighting, sighting->time - TURNED_AWAY_S);
}

/* The sightings of one peer that has no journal here. Those that are close together are one, unless somebody has seen
 * it alive between them. */
static void tell_sightings(const gw_why_record *record, int peer, gw_findings *findings) {
    sightings seen = {0};
    double alive = 0;
    for (size_t i = 0; i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->peer != peer || event->kind != GW_WHY_PEER) continue;
        if (word_is(event->word, "alive") && seen.first != 0 && alive == 0) alive = event->time;
        if (!is_sighting(record, event)) continue;
        bool away = is_turned_away(record, event);
        bool again = away && seen.turned_away && event->time <= seen.last + TURNED_AWAY_S;
        bool back = alive != 0 && event->time > alive + SKEW_S;
        if (seen.first != 0 && !again && (back || event->time > seen.last + TOGETHER_S)) {
            tell_unknown(record, peer, &seen, findings);
            seen = (sightings){0};
            alive = 0;
        }
        seen.turned_away = away && (seen.first == 0 || seen.turned_away);
        see(&seen, record, event);
    }
    if (seen.first != 0) tell_unknown(record, peer, &seen, findings);
}

void gw_why_deaths(const gw_why_record *record, gw_findings *findings) {
    tell_known(record, findings);
    for (int peer = 0; peer < record->peer_count; peer++)
        if (record->peers[peer].journal == GW_WHY_NONE) tell_sightings(record, peer, findings);
}

/* Cuts: a peer was gone for others, and its own journal says that it lived. */

/* What the rule about cuts knows of the record. */
typedef struct looking {
    const gw_why_record *record;
    double *alive;               /* last_alive */
    const gw_why_event **pauses; /* those that count */
    size_t pause_count;
} looking;

/* The most times of standing still that are looked at. */
enum { PAUSES = 4096 };

static bool begin_looking(looking *l) {
    l->alive = last_alive(l->record);
    l->pauses = calloc(PAUSES, sizeof(const gw_why_event *));
    for (size_t i = 0; l->pauses != NULL && i < l->record->event_count && l->pause_count < PAUSES; i++)
        if (l->record->events[i].kind == GW_WHY_PAUSE) l->pauses[l->pause_count++] = &l->record->events[i];
    return l->alive != NULL && l->pauses != NULL;
}

/* Whether this journal's process stood still around that time. */
static bool stood_still(const looking *l, int journal, double time) {
    for (size_t i = 0; i < l->pause_count; i++) {
        const gw_why_event *event = l->pauses[i];
        if (event->journal == journal && time >= event->time - event->usual * 1e-3 - SKEW_S &&
            time <= event->time + AFTER_S)
            return true;
    }
    return false;
}

/* Whether a sighting is of a peer that lived and ran, by one that ran as well. */
static bool is_cut(const looking *l, const gw_why_event *event) {
    if (!is_sighting(l->record, event) || word_is(event->word, "left")) return false;
    int journal = l->record->peers[event->peer].journal;
    if (journal == GW_WHY_NONE || ended_life(l->record, l->alive, event) != NULL) return false;
    return !stood_still(l, journal, event->time) && !stood_still(l, event->journal, event->time);
}

/* Peers that did not hear each other. Each is on one of two sides, as far as what was seen has two sides. */
enum { PAIRS = 512 };
typedef struct cut {
    double first, last, until; /* until: when they had met again */
    struct {
        int by, of; /* who did not hear whom */
    } pairs[PAIRS];
    int count;
    gw_why_set sides[2], deaf[2]; /* deaf: those of the side that did not hear */
    bool knotted;                 /* there are no two sides */
} cut;

static int side_of(const cut *c, int peer) {
    return gw_why_set_has(&c->sides[0], peer) ? 0 : gw_why_set_has(&c->sides[1], peer) ? 1 : -1;
}

/* Gives each peer a side, so that nobody is on one side with a peer that it did not hear. */
static void take_sides(cut *c) {
    for (bool more = true; more;) {
        more = false;
        int start = -1;
        for (int i = 0; i < c->count; i++) {
            int by = side_of(c, c->pairs[i].by), of = side_of(c, c->pairs[i].of);
            if (by < 0 && of < 0 && start < 0) start = i;
            if ((by < 0) == (of < 0)) continue;
            gw_why_set_add(&c->sides[by < 0 ? 1 - of : 1 - by], by < 0 ? c->pairs[i].by : c->pairs[i].of);
            more = true;
        }
        if (more || start < 0) continue;
        gw_why_set_add(&c->sides[0], c->pairs[start].by);
        more = true;
    }
    for (int i = 0; i < c->count; i++) {
        int by = side_of(c, c->pairs[i].by);
        c->knotted |= by == side_of(c, c->pairs[i].of);
        gw_why_set_add(&c->deaf[by], c->pairs[i].by);
    }
}

/* Notes news that a peer is alive: whether it is of a pair that has met again. */
static void note_alive(const gw_why_record *record, cut *c, const gw_why_event *event) {
    int by = record->journals[event->journal].peer;
    for (int i = 0; i < c->count; i++)
        if (c->pairs[i].by == by && c->pairs[i].of == event->peer) c->until = event->time;
}

static void tell_cut(const gw_why_record *record, cut *c, gw_findings *findings) {
    char few[GW_WHY_LIST], many[GW_WHY_LIST], span[GW_WHY_SPAN], lasted[60] = "";
    take_sides(c);
    gw_finding *finding = gw_findings_add(findings, "cut", c->first, c->last);
    if (finding == NULL) return;
    for (int i = 0; i < c->count; i++) {
        gw_why_set_add(&finding->peers, c->pairs[i].by);
        gw_why_set_add(&finding->peers, c->pairs[i].of);
    }
    if (c->until > c->first)
        snprintf(lasted, sizeof lasted, " for %s", gw_why_span(c->until - c->first, span));
    int small = gw_why_set_count(&c->sides[0]) <= gw_why_set_count(&c->sides[1]) ? 0 : 1;
    gw_why_list(record, c->knotted ? &finding->peers : &c->sides[small], few);
    gw_why_list(record, &c->sides[1 - small], many);
    bool one_way = gw_why_set_count(&c->deaf[0]) == 0 || gw_why_set_count(&c->deaf[1]) == 0;
    if (c->knotted)
        snprintf(finding->text, sizeof finding->text, "%s did not all reach each other%s, though all ran.",
                 few, lasted);
    else
        snprintf(finding->text, sizeof finding->text,
                 "%s and %s did not reach each other%s, though all ran%s.", few, many, lasted,
                 !one_way                                ? ""
                 : gw_why_set_count(&c->deaf[small]) > 0 ? ": the former missed the latter"
                                                         : ": the latter missed the former");
    snprintf(
        finding->evidence, sizeof finding->evidence,
        one_way ? "Their journals go on meanwhile: packets one way were lost or late, or one of them was too "
                  "busy to answer."
                : "Their journals go on meanwhile: it was the network between, and no process or host.");
    snprintf(finding->advice, sizeof finding->advice,
             "See to the links and switches between them, and to firewalls that drop UDP or TCP.");
    gw_finding_charge(record, finding);
    if (c->until > finding->to) finding->to = c->until;
}

static void note_pair(const gw_why_record *record, cut *c, const gw_why_event *event) {
    if (c->count == 0) c->first = event->time;
    c->last = event->time;
    int by = record->journals[event->journal].peer;
    if (c->count == PAIRS || by == GW_WHY_NONE) return;
    c->pairs[c->count].by = by;
    c->pairs[c->count++].of = event->peer;
}

void gw_why_cuts(const gw_why_record *record, gw_findings *findings) {
    looking l = {.record = record};
    cut *c = calloc(1, sizeof *c);
    bool memory = begin_looking(&l) && c != NULL;
    for (size_t i = 0; memory && i < record->event_count; i++) {
        const gw_why_event *event = &record->events[i];
        if (event->kind == GW_WHY_PEER && word_is(event->word, "alive")) note_alive(record, c, event);
        if (!is_cut(&l, event)) continue;
        if (c->count > 0 && event->time > c->last + TOGETHER_S) {
            tell_cut(record, c, findings);
            memset(c, 0, sizeof *c);
        }
        note_pair(record, c, event);
    }
    if (memory && c->count > 0) tell_cut(record, c, findings);
    free(c);
    free(l.pauses);
    free(l.alive);
}
