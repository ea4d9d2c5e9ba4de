"""The rules of the systems that the peers' policies reproduce, written down a second time.

Plans are lists of microbatches, a microbatch a list of (ranks, ids) from rank 0 on. Written
from the description of the rules, walking over every rank where the product keeps maxima, so
that it shares no short cut with it. Fails is raised where the original crashes, loops or
refuses; what the product does there is its own.
"""
import heapq
import math


class Fails(Exception):
    pass


def ranks_needed(length, cap):
    return max(1, 2 ** math.ceil(math.log2(length / cap)))


def by_length(sequences):
    return sorted(sequences, key=lambda s: -s[1])


class Row:
    """The ranks of one microbatch, filled from rank 0 on."""

    def __init__(self, n_ranks):
        self.n_ranks = n_ranks
        self.groups = []  # [size, tokens, [(id, length)]]
        self.load = [0.0] * n_ranks

    def used(self):
        return sum(g[0] for g in self.groups)

    def first(self, group):
        at = 0
        for g in self.groups:
            if g is group:
                return at
            at += g[0]
        raise AssertionError

    def add(self, group, sequence, tokens, load):
        if group is None:
            raise AssertionError
        group[1] += tokens
        group[2].append(sequence)
        first = self.first(group)
        for rank in range(first, first + group[0]):
            self.load[rank] += load

    def open(self, size):
        group = [size, 0.0, []]
        self.groups.append(group)
        return group

    def plan(self):
        return [(g[0], [i for i, _ in g[2]]) for g in self.groups]


# --- megatron: default_dynamic_cp, packing aware ---

def place_packing_aware(row, sequence, cap, needed, limit):
    _, length = sequence
    best = None
    size = needed(length)
    while size <= row.n_ranks:
        work = length * length / size
        choices = [g for g in row.groups if g[0] == size and g[1] + length / size <= cap]
        for group in choices + [None]:
            first = row.used() if group is None else row.first(group)
            if first + size > row.n_ranks:
                continue
            hottest = max(load + (work if first <= rank < first + size else 0)
                          for rank, load in enumerate(row.load))
            if hottest <= limit and (best is None or hottest < best[0]):
                best = (hottest, size, group)
        size *= 2
    if best is None:
        return False
    _, size, group = best
    row.add(row.open(size) if group is None else group, sequence, length / size,
            length * length / size)
    return True


def fill_packing_aware(row):
    """Widen groups until no rank is empty; False: the whole pool has to be one group."""
    while row.used() < row.n_ranks:
        narrowest = min(g[0] for g in row.groups)
        more = min(2 * narrowest, row.n_ranks) - narrowest
        for group in row.groups:
            end = row.first(group) + narrowest
            if group[0] == narrowest and end <= row.used() and end - 1 + more < row.n_ranks:
                break
        else:
            return False
        if row.used() + more > row.n_ranks:
            raise Fails("what is pushed behind leaves the pool")
        group[0] += more
    return True


def one_microbatch(sequences, n_ranks, cap, min_size):
    def needed(length):
        return max(min_size, ranks_needed(length, cap))

    sequences = by_length(sequences)
    longest = sequences[0][1]
    row = Row(n_ranks)
    if needed(longest) > n_ranks:
        raise Fails("a degree above the pool")
    size = needed(longest)
    row.add(row.open(size), sequences[0], longest / size, longest * longest / size)
    left = [s for s in sequences[1:]
            if not place_packing_aware(row, s, cap, needed, longest * cap * 1.05)]
    if not fill_packing_aware(row):
        row, left, tokens = Row(n_ranks), [], 0.0
        group = row.open(n_ranks)
        for s in sequences:
            if tokens + s[1] / n_ranks <= cap:
                tokens += s[1] / n_ranks
                group[2].append(s)
            else:
                left.append(s)
    return row.plan(), left


def refill(groups, n_ranks):
    groups = [list(g) for g in groups]
    while sum(g[0] for g in groups) < n_ranks:
        narrowest = min(groups, key=lambda g: g[0])
        if sum(g[0] for g in groups) + narrowest[0] > n_ranks:
            raise Fails("halves that cannot be doubled")
        narrowest[0] *= 2
    return [tuple(g) for g in groups]


def megatron(lengths, n_ranks, cap, min_size=1, multiple=1):
    sequences = by_length(enumerate(lengths))
    plan = []
    while sequences:
        microbatch, sequences = one_microbatch(sequences, n_ranks, cap, min_size)
        plan.append(microbatch)
    missing, failed, at = -len(plan) % multiple, 0, len(plan)
    while missing > 0:
        if failed == len(plan):
            raise Fails("no microbatch can be cut")
        at = at - 1 if at > 0 else len(plan) - 1
        whole, n, k = plan[at], 0, 0
        if len(whole) < 2:
            failed += 1
            continue
        while n < n_ranks / 2:
            n, k = n + whole[k][0], k + 1
        k = min(k, len(whole) - 1)
        left, right = refill(whole[:k], n_ranks), refill(whole[k:], n_ranks)
        plan.append(left)
        plan[at] = right
        missing, failed = missing - 1, 0
    return plan


# --- megatron-hybrid: the first generation ---

def make_buckets(sequences, cap):
    def work(length):
        return length * length / ranks_needed(length, cap)

    to_come = len({ranks_needed(length, cap) for _, length in sequences})
    target = sum(work(length) for _, length in sequences) / to_come
    buckets, bucket, weight = [], [], 0.0
    for at, (i, length) in enumerate(sequences):
        if bucket and (weight + work(length) > target * 1.1 or
                       len(sequences) - at <= to_come - len(buckets)):
            buckets.append(bucket)
            bucket, weight, to_come = [], 0.0, to_come - 1
        bucket.append((i, length))
        weight += work(length)
    return buckets + [bucket]


def fill_phase(row, buckets, cap):
    first_size, may_end = None, False
    while buckets:
        for bucket in buckets:
            if bucket:
                size = ranks_needed(bucket[0][1], cap)
                alike = [g for g in row.groups if g[0] == size]
                if row.n_ranks - row.used() >= size or alike:
                    break
        else:
            return
        if row.n_ranks - row.used() >= size:
            group = row.open(size)
        else:
            group = min(alike, key=lambda g: row.load[row.first(g)])
        sequence = bucket.pop(0)
        row.add(group, sequence, 0.0, sequence[1] ** 2 / size)
        first_size = size if first_size is None else first_size
        while buckets and not buckets[0]:
            buckets.pop(0)
        may_end = may_end or size < first_size
        if may_end and buckets and max(row.load) - min(row.load) <= 0.05 * max(row.load):
            return


def trim(row, left):
    while True:
        most, least = max(row.load), min(row.load)
        if most - least <= 0.05 * most or least == 0:
            return
        rank = row.load.index(most)
        group = [g for g in row.groups if row.first(g) <= rank < row.first(g) + g[0]][0]
        if len(group[2]) <= 1:
            return
        first, work = row.first(group), group[2][-1][1] ** 2 / group[0]
        load = [x - work if first <= r < first + group[0] else x
                for r, x in enumerate(row.load)]
        if max(load) - min(load) >= most - least:
            return
        row.load = load
        left.append(group[2].pop())


def megatron_hybrid(lengths, n_ranks, cap):
    sequences = by_length(enumerate(lengths))
    if ranks_needed(max(lengths), cap) > n_ranks:
        raise Fails("a degree above the pool")
    plan = []
    while sequences:
        row, buckets = Row(n_ranks), make_buckets(sequences, cap)
        fill_phase(row, buckets, cap)
        left = [s for bucket in buckets for s in bucket]
        trim(row, left)
        while row.used() < n_ranks:
            group = min(row.groups, key=lambda g: g[0])
            more = min(2 * group[0], n_ranks) - group[0]
            if row.used() + more > n_ranks:
                raise Fails("what is pushed behind leaves the pool")
            group[0] += more
        plan.append(row.plan())
        sequences = left
    return plan


# --- dp-balanced ---

def dp_balanced(lengths, n_ranks, cap, size, multiple=1):
    bins, tokens = [], 0
    for i, length in enumerate(lengths):
        if not bins or tokens + length > cap * size:
            bins.append([])
            tokens = 0
        bins[-1].append(i)
        tokens += length
    n_groups = n_ranks // size
    while len(bins) % (n_groups * multiple):
        several = [b for b in bins if len(b) > 1]
        if not several:
            raise Fails("too few sequences")
        bins.append([several[-1].pop()])
    return [[(size, bins[m + g]) for g in range(n_groups)]
            for m in range(0, len(bins), n_groups)]


# --- relax ---

class Partial:
    """A partial solution of Karmarkar-Karp: k sets, the largest first."""

    def __init__(self, items, k):
        self.sets = [(v, [(i, v)]) for i, v in items] + [(0, [])] * (k - len(items))
        self.sets.sort(key=self.order, reverse=True)

    @staticmethod
    def order(one):
        return one[0], len(one[1]), one[1]

    def key(self):
        return self.sets[0][0] - self.sets[-1][0], self.order(self.sets[0])

    def __lt__(self, other):
        return self.key() > other.key()

    def merge(self, other):
        self.sets = [(a[0] + b[0], a[1] + b[1])
                     for a, b in zip(self.sets, reversed(other.sets))]
        self.sets.sort(key=self.order, reverse=True)


def differencing(values, k, equal_counts):
    items = sorted(enumerate(values), key=lambda item: (item[1], item[0]))
    step = k if equal_counts else 1
    heap = [Partial(items[at:at + step], k) for at in range(0, len(items), step)]
    heapq.heapify(heap)
    while len(heap) > 1:
        first = heapq.heappop(heap)
        first.merge(heapq.heappop(heap))
        heapq.heappush(heap, first)
    return [sorted(i for i, _ in one[1]) for one in heap[0].sets]


def first_fit(values, room):
    bins = []
    for i, value in enumerate(values):
        for one in bins:
            if one[0] + value <= room:
                break
        else:
            one = [0, []]
            bins.append(one)
        one[0] += value
        one[1].append(i)
    return [one[1] for one in bins]


def pack_share(lengths, room, k):
    parts = differencing(lengths, k, False)
    if any(len(p) > 1 and sum(lengths[i] for i in p) > room for p in parts):
        parts = first_fit(lengths, room)
        while len(parts) < k:
            fullest = max((p for p in parts if len(p) > 1),
                          key=lambda p: sum(lengths[i] for i in p))
            longest = max(fullest, key=lambda i: lengths[i])
            fullest.remove(longest)
            parts.append([longest])
    return parts


def cut(ids, lengths, n_groups, split):
    if n_groups == 1:
        return [ids]
    if split == "tokens":
        return [[ids[i] for i in part]
                for part in differencing([lengths[i] for i in ids], n_groups, False)]
    each, longer = divmod(len(ids), n_groups)
    at = [g * each + min(g, longer) for g in range(n_groups + 1)]
    return [ids[at[g]:at[g + 1]] for g in range(n_groups)]


def relax(lengths, n_ranks, cap, size, multiple=1, dynamic=True, split="tokens"):
    n_shares, room = n_ranks // size, cap * size
    if len(lengths) % n_shares:
        raise Fails("sequences that do not divide by DP")
    shares = differencing(lengths, n_shares, True)
    k = max(len(first_fit([lengths[i] for i in share], room)) for share in shares)
    k = -(-k // multiple) * multiple
    rows = []
    for share in shares:
        if len(share) < k:
            raise Fails("dummies")
        parts = [[share[i] for i in part]
                 for part in pack_share([lengths[i] for i in share], room, k)]
        if dynamic:
            parts.sort(key=lambda part: max(lengths[i] for i in part))
        rows.append(parts)
    plan = []
    for m in range(k):
        degree = size
        if dynamic:
            degree = ranks_needed(max(lengths[i] for row in rows for i in row[m]), cap)
            while degree < size and size / degree > min(len(row[m]) for row in rows):
                degree *= 2
            degree = min(degree, size)
        plan.append([(degree, ids) for row in rows
                     for ids in cut(row[m], lengths, size // degree, split)])
    return plan
