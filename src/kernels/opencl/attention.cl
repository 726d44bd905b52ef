// Attention of a band: forward pass and gradients, scores never stored.
//
// A work item is a query (or, for gradients of keys, a key); a work group is LANES of them in one
// head of one document and one residue class of the dilation. The group goes through the keys (or
// queries) that its items may meet, TILE at a time, through local memory.
//
// The build defines LANES, TILE, VEC, DIMS (the head size, rounded up; a multiple of VEC, as TILE
// is), RELATIVE (1 where scores have the term of relative positions) and HALF (1 where queries, keys
// and values are stored in fp16).

#define GLUE_NOW(a, b) a##b
#define GLUE(a, b) GLUE_NOW(a, b)
typedef GLUE(float, VEC) floats;
typedef GLUE(int, VEC) ints;
#define LOAD(from) GLUE(vload, VEC)(0, from)
#define STORE(value, to) GLUE(vstore, VEC)(value, 0, to)
#if HALF
// Reading it needs no arithmetic in fp16, which devices may lack.
typedef half stored;
#define AT(numbers, place) vload_half(place, numbers)
#define LOAD_STORED(from) GLUE(vload_half, VEC)(0, from)
#else
typedef float stored;
#define AT(numbers, place) (numbers)[place]
#define LOAD_STORED(from) LOAD(from)
#endif
#define UNITS (DIMS / VEC)
#define BLOCKS (TILE / VEC)
#define HELD (UNITS % 4 == 0 ? 4 : UNITS % 3 == 0 ? 3 : UNITS % 2 == 0 ? 2 : 1)
#define KERNEL __kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))

// Kinds of keys and of queries, as in kernels/attention/backends.h.
#define MASKED 0
#define ORDINARY 1
#define NOTHING 0
#define WINDOWED 1
#define EVERYTHING 2

// Rows of a work group. The host has the same struct.
typedef struct {
  int head;
  int first, step, count;  // rows; the step 0 says that they are places in a list
  int residue;             // of the rows' positions, by the dilation
  int from, to;            // numbers of keys or queries that some row may meet
  int list_from, list_to;  // places in the list of those that meet all rows
  int key_begin, key_count;
  int query_begin, query_count, query_offset;
  int add;  // 1 adds to gradients of keys that another document has written
  int unused;
} Task;

// Sizes of a call. The host has the same struct.
typedef struct {
  int head_size, heads, queries, keys;
  int causal, bias_reach, distances, documents;
  float scale, log_weight;
  int unused, unused_too;
} Sizes;

float sum_of(floats x) {
  float part[VEC];
  STORE(x, part);
  float sum = 0;
  for (int e = 0; e < VEC; ++e) sum += part[e];
  return sum;
}

float largest_of(floats x) {
  float part[VEC];
  STORE(x, part);
  float largest = part[0];
  for (int e = 1; e < VEC; ++e) largest = fmax(largest, part[e]);
  return largest;
}

int floor_div(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }

// Numbers of the keys in the window of a query. A head is (left, right, dilation, block).
int2 window_of(int4 head, int position, int causal) {
  const int own = floor_div(position, head.z * head.w);
  int2 seen = (int2)(max((own - head.x) * head.w, 0), (own + head.y + 1) * head.w);
  if (causal) seen.y = min(seen.y, floor_div(position, head.z) + 1);
  return seen;
}

// Places of the keys that a query with a global row, or any query among the global keys, sees.
int2 all_of(int position, int keys, int causal) {
  return (int2)(0, causal ? clamp(position + 1, 0, keys) : keys);
}

float bias_at(__global const float* biases, int head, int reach, int distance) {
  return biases[(long)head * (2 * reach + 1) + reach + clamp(distance, -reach, reach)];
}

// Product of two rows of DIMS numbers.
float product(const float* a, __global const float* b) {
  floats sum = 0;
  for (int u = 0; u < UNITS; ++u) sum = fma(LOAD(a + u * VEC), LOAD(b + u * VEC), sum);
  return sum_of(sum);
}

// Products of a row with the columns of a tile.
void multiply(const float* row, __local const float* columns, float* products) {
  floats sums[BLOCKS];
  for (int b = 0; b < BLOCKS; ++b) sums[b] = 0;
  for (int c = 0; c < DIMS; ++c) {
    for (int b = 0; b < BLOCKS; ++b) {
      sums[b] = fma((floats)(row[c]), LOAD(columns + c * TILE + b * VEC), sums[b]);
    }
  }
  for (int b = 0; b < BLOCKS; ++b) STORE(sums[b], products + b * VEC);
}

// Adds weight · row. What a row holds is not looked at where the weight is 0.
void add_row(float weight, __local const float* row, float* sums) {
  if (weight == 0) return;
  for (int u = 0; u < UNITS; ++u) {
    STORE(fma((floats)(weight), LOAD(row + u * VEC), LOAD(sums + u * VEC)), sums + u * VEC);
  }
}

// Adds the rows of a tile, each times its weight.
void add_rows(const float* weights, __local const float* rows, float* sums) {
  ints zeros = 0;
  for (int b = 0; b < BLOCKS; ++b) zeros |= LOAD(weights + b * VEC) == (floats)(0.0f);
  if (any(zeros)) {
    for (int k = 0; k < TILE; ++k) add_row(weights[k], rows + k * DIMS, sums);
    return;
  }
  // So many vectors stay in registers.
  for (int u = 0; u < UNITS; u += HELD) {
    floats held[HELD];
    for (int h = 0; h < HELD; ++h) held[h] = LOAD(sums + (u + h) * VEC);
    for (int k = 0; k < TILE; ++k) {
      for (int h = 0; h < HELD; ++h) {
        held[h] = fma((floats)(weights[k]), LOAD(rows + k * DIMS + (u + h) * VEC), held[h]);
      }
    }
    for (int h = 0; h < HELD; ++h) STORE(held[h], sums + (u + h) * VEC);
  }
}

void add_global_row(float weight, __global const float* row, float* sums) {
  if (weight == 0) return;
  for (int u = 0; u < UNITS; ++u) {
    STORE(fma((floats)(weight), LOAD(row + u * VEC), LOAD(sums + u * VEC)), sums + u * VEC);
  }
}

void clear(float* sums) {
  for (int c = 0; c < DIMS; ++c) sums[c] = 0;
}

// A row of so many numbers, with zeros behind it.
void read_row(__global const stored* from, int count, float* row) {
  for (int c = 0; c < DIMS; ++c) row[c] = c < count ? AT(from, c) : 0.0f;
}

void read_gradient(__global const float* from, int count, float* row) {
  for (int c = 0; c < DIMS; ++c) row[c] = c < count ? from[c] : 0.0f;
}

// VEC numbers of a row, with zeros behind its end.
floats part_of(__global const stored* row, int begin, int count) {
  if (begin + VEC <= count) return LOAD_STORED(row + begin);
  float part[VEC];
  for (int e = 0; e < VEC; ++e) part[e] = begin + e < count ? AT(row, begin + e) : 0.0f;
  return LOAD(part);
}

// Writes VEC numbers of a row as a part of a column.
void put_column(floats numbers, int k, int begin, __local float* columns) {
  float part[VEC];
  STORE(numbers, part);
  for (int e = 0; e < VEC; ++e) columns[(begin + e) * TILE + k] = part[e];
}

void add_to_row(__global const float* from, float* row) {
  for (int c = 0; c < DIMS; ++c) row[c] += from[c];
}

// The rows of a group, and what each of them meets.
typedef struct {
  int row;      // −1 for lanes without one
  int position;
  int2 window;  // numbers of keys
  int2 whole;   // places of keys
} Query;

Query query_of(const Task* task, Sizes sizes, int4 head, __global const int2* rows,
               __global const int* listed, int lane) {
  Query query = {-1, 0, (int2)(0), (int2)(0)};
  if (lane >= task->count) return query;
  const int row = task->step != 0 ? task->first + lane * task->step : listed[task->first + lane];
  const int2 info = rows[row];
  // Another group has the queries that see everything.
  if (task->step != 0 && info.y == EVERYTHING) return query;
  query.row = row;
  query.position = info.x;
  if (info.y == NOTHING) return query;
  query.whole = all_of(info.x, task->key_count, sizes.causal);
  query.window = task->step == 0 ? query.whole : window_of(head, info.x, sizes.causal);
  return query;
}

// Keys of a tile: places[k] is a key's number or place, −1 for those that nobody sees.
void place_keys(const Task* task, int in_window, int dilation, int begin, int count,
                __global const uchar* kinds, __global const int* global_keys, __local int* places,
                __local int* key_rows, int lane) {
  for (int k = lane; k < TILE; k += LANES) {
    int place = -1, row = -1;
    if (k < count) {
      const int key = in_window ? task->residue + (begin + k) * dilation
                                : global_keys[begin + k] - task->key_begin;
      const int kind = kinds[task->key_begin + key];
      // A global key is met once, among the global keys.
      const int seen = in_window && task->step != 0 ? kind == ORDINARY : kind != MASKED;
      if (seen) {
        place = in_window ? begin + k : key;
        row = task->key_begin + key;
      }
    }
    places[k] = place;
    key_rows[k] = row;
  }
}

// Scores of the keys that a query sees, ready for the softmax; the others are −∞. Gives 1 if the
// query sees any.
int score(Sizes sizes, const Task* task, int2 seen, int position, int dilation,
          __global const float* biases, __global const float* relative, const float* query,
          const float* positioned, __local const float* columns, __local const int* places,
          float* scores) {
  multiply(query, columns, scores);
#if RELATIVE
  for (int k = 0; k < TILE; ++k) {
    if (places[k] < seen.x || places[k] >= seen.y) continue;
    const int steps = (position - task->residue - places[k] * dilation) / dilation;
    const long row = (long)task->head * sizes.distances + steps;
    scores[k] += product(positioned, relative + row * DIMS);
  }
#endif
  ints any_seen = 0;
  for (int b = 0; b < BLOCKS; ++b) {
    const ints place = LOAD(places + b * VEC);
    const ints visible = (place >= (ints)(seen.x)) & (place < (ints)(seen.y));
    const floats scaled = LOAD(scores + b * VEC) * sizes.scale;
    STORE(select((floats)(-INFINITY), scaled, visible), scores + b * VEC);
    any_seen |= visible;
  }
  for (int k = 0; sizes.bias_reach >= 0 && k < TILE; ++k) {
    const int distance = task->residue + places[k] * dilation - position;
    if (scores[k] == -INFINITY) continue;
    scores[k] += bias_at(biases, task->head, sizes.bias_reach, distance);
  }
  return any(any_seen);
}

// Tasks are groups of queries. `listed` has the rows of queries that see everything.
KERNEL void attend(__global const Task* tasks, Sizes sizes, __global const int4* heads,
                   __global const int2* rows, __global const int* listed,
                   __global const uchar* kinds, __global const int* global_keys,
                   __global const stored* query, __global const stored* key,
                   __global const stored* value, __global const float* biases,
                   __global const float* relative, __global const float* content_bias,
                   __global const float* position_bias, __global float* out,
                   __global float* logsumexp) {
  __local float columns[DIMS * TILE];
  __local float values[TILE * DIMS];
  __local int places[TILE], key_rows[TILE];
  const Task task = tasks[get_group_id(0)];
  const int lane = get_local_id(0), d = sizes.head_size;
  const int4 head = heads[task.head];
  const int dilation = task.step == 0 ? 1 : head.z;
  const Query own = query_of(&task, sizes, head, rows, listed, lane);

  float q[DIMS], positioned[RELATIVE ? DIMS : 1], sums[DIMS], scores[TILE];
  clear(sums);
  clear(q);
  if (own.row >= 0 && own.whole.y > 0) {
    read_row(query + ((long)task.head * sizes.queries + own.row) * d, d, q);
#if RELATIVE
    for (int c = 0; c < DIMS; ++c) positioned[c] = q[c] + position_bias[task.head * DIMS + c];
    add_to_row(content_bias + task.head * DIMS, q);
#endif
  }
  float largest = -INFINITY, denominator = 0;
  const int window_tiles = (task.to - task.from + TILE - 1) / TILE;
  const int tiles = window_tiles + (task.list_to - task.list_from + TILE - 1) / TILE;
  for (int tile = 0; tile < tiles; ++tile) {
    const int in_window = tile < window_tiles;
    const int begin = in_window ? task.from + tile * TILE
                                : task.list_from + (tile - window_tiles) * TILE;
    const int count = min(TILE, (in_window ? task.to : task.list_to) - begin);
    barrier(CLK_LOCAL_MEM_FENCE);
    place_keys(&task, in_window, dilation, begin, count, kinds, global_keys, places, key_rows,
               lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lane; i < TILE * UNITS; i += LANES) {
      const int k = i / UNITS, c = i % UNITS * VEC;
      const int there = key_rows[k] >= 0;
      const long at = there ? ((long)task.head * sizes.keys + key_rows[k]) * d : 0;
      put_column(part_of(key + at, c, there ? d : 0), k, c, columns);
      STORE(part_of(value + at, c, there ? d : 0), values + i * VEC);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int2 seen = in_window ? own.window : own.whole;
    const int meets = seen.x < seen.y && (!in_window || (begin < seen.y && begin + count > seen.x));
    if (meets && score(sizes, &task, seen, own.position, dilation, biases, relative, q, positioned,
                       columns, places, scores)) {
      floats top = LOAD(scores);
      for (int b = 1; b < BLOCKS; ++b) top = fmax(top, LOAD(scores + b * VEC));
      const float highest = fmax(largest, largest_of(top));
      // Scores that are all NaN leave no maximum.
      const float base = highest == -INFINITY ? 0.0f : highest;
      const float factor = largest == -INFINITY ? 0.0f : exp(largest - base);
      for (int u = 0; u < UNITS; ++u) STORE(LOAD(sums + u * VEC) * factor, sums + u * VEC);
      floats part = 0;
      for (int b = 0; b < BLOCKS; ++b) {
        const floats given = LOAD(scores + b * VEC);
        const ints hidden = given == (floats)(-INFINITY);
        const floats weights = select(exp(given - base), (floats)(0.0f), hidden);
        part += weights;
        STORE(weights, scores + b * VEC);
      }
      denominator = fma(denominator, factor, sum_of(part));
      largest = highest;
      add_rows(scores, values, sums);
    }
  }
  if (own.row < 0) return;
  const float inverse = denominator == 0 ? 0.0f : 1 / denominator;
  __global float* to = out + ((long)own.row * sizes.heads + task.head) * d;
  for (int c = 0; c < DIMS; ++c) {
    if (c < d) to[c] = sums[c] * inverse;
  }
  logsumexp[(long)task.head * sizes.queries + own.row] =
      denominator == 0 ? -INFINITY : largest + log(denominator);
}

#if BACKWARD

// Turns scores into the gradients of scores: with p the probabilities and `given` the products of
// the output's gradient with values, p · (given − delta). Leaves p in `scores`.
void send_scores_back(float shift, float delta, float* scores, float* given) {
  for (int b = 0; b < BLOCKS; ++b) {
    const floats score = LOAD(scores + b * VEC);
    const ints hidden = score == (floats)(-INFINITY);
    const floats p = select(exp(score - shift), (floats)(0.0f), hidden);
    // The product of a hidden row may be anything.
    const floats back = select(p * (LOAD(given + b * VEC) - delta), (floats)(0.0f), hidden);
    STORE(p, scores + b * VEC);
    STORE(back, given + b * VEC);
  }
}

// For each head and query the sum of gradient · output. Outputs whose gradient is 0 do not count.
KERNEL void sum_outputs(Sizes sizes, __global const float* out, __global const float* out_gradient,
                        __global float* deltas) {
  const long at = get_global_id(0);
  if (at >= (long)sizes.queries * sizes.heads) return;
  const long row = at / sizes.heads, head = at % sizes.heads;
  float sum = 0;
  for (int c = 0; c < sizes.head_size; ++c) {
    const float gradient = out_gradient[at * sizes.head_size + c];
    if (gradient != 0) sum = fma(gradient, out[at * sizes.head_size + c], sum);
  }
  deltas[head * sizes.queries + row] = sum;
}

// Tasks are groups of queries, as in the forward pass.
KERNEL void send_to_queries(
    __global const Task* tasks, Sizes sizes, __global const int4* heads, __global const int2* rows,
    __global const int* listed, __global const uchar* kinds, __global const int* global_keys,
    __global const stored* query, __global const stored* key, __global const stored* value,
    __global const float* biases, __global const float* relative,
    __global const float* content_bias, __global const float* position_bias,
    __global const float* logsumexp, __global const float* deltas,
    __global const float* out_gradient, __global float* query_gradient) {
  __local float columns[DIMS * TILE], value_columns[DIMS * TILE];
  __local float key_values[TILE * DIMS];
  __local int places[TILE], key_rows[TILE];
  const Task task = tasks[get_group_id(0)];
  const int lane = get_local_id(0), d = sizes.head_size;
  const int4 head = heads[task.head];
  const int dilation = task.step == 0 ? 1 : head.z;
  const Query own = query_of(&task, sizes, head, rows, listed, lane);

  float q[DIMS], positioned[RELATIVE ? DIMS : 1], gradient[DIMS], sums[DIMS];
  float scores[TILE], given[TILE];
  clear(sums);
  clear(q);
  clear(gradient);
  float shift = 0, delta = 0;
  if (own.row >= 0 && own.whole.y > 0) {
    read_row(query + ((long)task.head * sizes.queries + own.row) * d, d, q);
    read_gradient(out_gradient + ((long)own.row * sizes.heads + task.head) * d, d, gradient);
    shift = logsumexp[(long)task.head * sizes.queries + own.row] - sizes.log_weight;
    delta = deltas[(long)task.head * sizes.queries + own.row];
#if RELATIVE
    for (int c = 0; c < DIMS; ++c) positioned[c] = q[c] + position_bias[task.head * DIMS + c];
    add_to_row(content_bias + task.head * DIMS, q);
#endif
  }
  const int window_tiles = (task.to - task.from + TILE - 1) / TILE;
  const int tiles = window_tiles + (task.list_to - task.list_from + TILE - 1) / TILE;
  for (int tile = 0; tile < tiles; ++tile) {
    const int in_window = tile < window_tiles;
    const int begin = in_window ? task.from + tile * TILE
                                : task.list_from + (tile - window_tiles) * TILE;
    const int count = min(TILE, (in_window ? task.to : task.list_to) - begin);
    barrier(CLK_LOCAL_MEM_FENCE);
    place_keys(&task, in_window, dilation, begin, count, kinds, global_keys, places, key_rows,
               lane);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lane; i < TILE * UNITS; i += LANES) {
      const int k = i / UNITS, c = i % UNITS * VEC;
      const int there = key_rows[k] >= 0;
      const long at = there ? ((long)task.head * sizes.keys + key_rows[k]) * d : 0;
      const floats numbers = part_of(key + at, c, there ? d : 0);
      put_column(numbers, k, c, columns);
      STORE(numbers, key_values + i * VEC);
      put_column(part_of(value + at, c, there ? d : 0), k, c, value_columns);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int2 seen = in_window ? own.window : own.whole;
    const int meets = seen.x < seen.y && (!in_window || (begin < seen.y && begin + count > seen.x));
    if (meets && score(sizes, &task, seen, own.position, dilation, biases, relative, q, positioned,
                       columns, places, scores)) {
      multiply(gradient, value_columns, given);
      send_scores_back(shift, delta, scores, given);
      add_rows(given, key_values, sums);
#if RELATIVE
      for (int k = 0; k < TILE; ++k) {
        if (given[k] != 0) {
          const int steps = (own.position - task.residue - places[k] * dilation) / dilation;
          add_global_row(given[k], relative + ((long)task.head * sizes.distances + steps) * DIMS,
                         sums);
        }
      }
#endif
    }
  }
  if (own.row < 0) return;
  __global float* to = query_gradient + ((long)task.head * sizes.queries + own.row) * d;
  for (int c = 0; c < DIMS; ++c) {
    if (c < d) to[c] = sums[c] * sizes.scale;
  }
}

// Tasks are groups of keys: those of a residue class, or, with the step 0, global keys. They meet
// the queries from … to − 1, numbers of windowed queries of the class (or, for global keys, all
// queries of the document), then the listed ones, which see everything.
KERNEL void send_to_keys(
    __global const Task* tasks, Sizes sizes, __global const int4* heads, __global const int2* rows,
    __global const int* listed, __global const uchar* kinds, __global const int* global_keys,
    __global const stored* query, __global const stored* key, __global const stored* value,
    __global const float* biases, __global const float* relative,
    __global const float* content_bias, __global const float* position_bias,
    __global const float* logsumexp, __global const float* deltas,
    __global const float* out_gradient, __global float* key_gradient,
    __global float* value_gradient, __global float* key_sums) {
  __local float columns[DIMS * TILE], gradient_columns[DIMS * TILE];
  __local float query_values[TILE * DIMS], gradient_values[TILE * DIMS];
  __local int query_rows[TILE], positions[TILE], begins[TILE], ends[TILE];
  __local float shifts[TILE], tile_deltas[TILE];
  const Task task = tasks[get_group_id(0)];
  const int lane = get_local_id(0), d = sizes.head_size;
  const int4 head = heads[task.head];
  const int dilation = task.step == 0 ? 1 : head.z;

  int row = -1;
  if (lane < task.count) {
    row = task.step != 0 ? task.first + lane * task.step : global_keys[task.first + lane];
    // Another group has the global keys.
    if (task.step != 0 && kinds[row] != ORDINARY) row = -1;
  }
  const int key_position = row - task.key_begin;
  const int number = task.step == 0 ? key_position : key_position / dilation;
  float k[DIMS], v[DIMS], key_sum[DIMS], value_sum[DIMS];
  float scores[TILE], given[TILE];
  float sum = 0;
  clear(key_sum);
  clear(value_sum);
  clear(k);
  clear(v);
  if (row >= 0) {
    read_row(key + ((long)task.head * sizes.keys + row) * d, d, k);
    read_row(value + ((long)task.head * sizes.keys + row) * d, d, v);
  }
  const int window_tiles = (task.to - task.from + TILE - 1) / TILE;
  const int tiles = window_tiles + (task.list_to - task.list_from + TILE - 1) / TILE;
  for (int tile = 0; tile < tiles; ++tile) {
    const int in_window = tile < window_tiles;
    const int begin = in_window ? task.from + tile * TILE
                                : task.list_from + (tile - window_tiles) * TILE;
    const int count = min(TILE, (in_window ? task.to : task.list_to) - begin);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lane; i < TILE; i += LANES) {
      int from = -1, position = 0;
      int2 seen = (int2)(0, 0);
      if (i < count) {
        const int query_row = in_window ? task.query_begin + task.residue + (begin + i) * dilation
                                        : listed[begin + i];
        const int2 info = rows[query_row];
        position = info.x;
        if (info.y == WINDOWED && in_window && task.step != 0) {
          seen = window_of(head, position, sizes.causal);
        } else if (info.y != NOTHING && (task.step == 0 || !in_window)) {
          seen = all_of(position, task.key_count, sizes.causal);
        }
        if (seen.x < seen.y) from = query_row;
      }
      query_rows[i] = from;
      positions[i] = position;
      begins[i] = seen.x;
      ends[i] = seen.y;
      const long at = (long)task.head * sizes.queries + from;
      shifts[i] = from >= 0 ? logsumexp[at] - sizes.log_weight : 0.0f;
      tile_deltas[i] = from >= 0 ? deltas[at] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lane; i < TILE * DIMS; i += LANES) {
      const int j = i / DIMS, c = i % DIMS;
      const int there = query_rows[j] >= 0 && c < d;
      const long query_at = (long)task.head * sizes.queries + query_rows[j];
      float value_of = there ? AT(query, query_at * d + c) : 0.0f;
#if RELATIVE
      if (there) value_of += content_bias[task.head * DIMS + c];
#endif
      const float gradient =
          there ? out_gradient[((long)query_rows[j] * sizes.heads + task.head) * d + c] : 0.0f;
      columns[c * TILE + j] = value_of;
      query_values[i] = value_of;
      gradient_columns[c * TILE + j] = gradient;
      gradient_values[i] = gradient;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (row >= 0) {
      // Listed queries count keys by their places.
      const int own = in_window ? number : key_position;
      int any_seen = 0;
      for (int j = 0; j < TILE; ++j) any_seen |= own >= begins[j] && own < ends[j];
      if (any_seen) {
        multiply(k, columns, scores);
        multiply(v, gradient_columns, given);
#if RELATIVE
        for (int j = 0; j < TILE; ++j) {
          if (own < begins[j] || own >= ends[j]) continue;
          const int steps = (positions[j] - key_position) / dilation;
          __global const float* to_place =
              relative + ((long)task.head * sizes.distances + steps) * DIMS;
          float added = 0;
          for (int c = 0; c < DIMS; ++c) {
            const float positioned = query_values[j * DIMS + c] -
                                     content_bias[task.head * DIMS + c] +
                                     position_bias[task.head * DIMS + c];
            added = fma(positioned, to_place[c], added);
          }
          scores[j] += added;
        }
#endif
        for (int j = 0; j < TILE; ++j) scores[j] *= sizes.scale;
        for (int j = 0; sizes.bias_reach >= 0 && j < TILE; ++j) {
          scores[j] += bias_at(biases, task.head, sizes.bias_reach, key_position - positions[j]);
        }
        floats part = 0;
        for (int b = 0; b < BLOCKS; ++b) {
          const ints hidden = ((ints)(own) < LOAD(begins + b * VEC)) |
                              ((ints)(own) >= LOAD(ends + b * VEC));
          const floats p = select(exp(LOAD(scores + b * VEC) - LOAD(shifts + b * VEC)),
                                  (floats)(0.0f), hidden);
          const floats back = select(p * (LOAD(given + b * VEC) - LOAD(tile_deltas + b * VEC)),
                                     (floats)(0.0f), hidden);
          STORE(p, scores + b * VEC);
          STORE(back, given + b * VEC);
          part += back;
        }
        sum += sum_of(part);
        add_rows(scores, gradient_values, value_sum);
        add_rows(given, query_values, key_sum);
      }
    }
  }
  if (row < 0) return;
  const long at = (long)task.head * sizes.keys + row;
  for (int c = 0; c < DIMS; ++c) {
    if (c < d) {
      const long to = at * d + c;
      key_gradient[to] = (task.add ? key_gradient[to] : 0.0f) + key_sum[c] * sizes.scale;
      value_gradient[to] = (task.add ? value_gradient[to] : 0.0f) + value_sum[c];
    }
  }
  key_sums[at] = (task.add ? key_sums[at] : 0.0f) + sum;
}

// Gradients of what scores add for a number of dilation steps from a key back to its query. A work
// item is such a number, task.first + lane; it meets the windowed queries of all documents. Sums
// lie from place task.list_from on.
KERNEL void send_to_steps(
    __global const Task* tasks, Sizes sizes, __global const int4* heads, __global const int2* rows,
    __global const Task* documents, __global const uchar* kinds, __global const stored* query,
    __global const stored* key, __global const stored* value, __global const float* biases,
    __global const float* relative, __global const float* content_bias,
    __global const float* position_bias, __global const float* logsumexp,
    __global const float* deltas, __global const float* out_gradient, __global float* step_sums,
    __global float* relative_gradient) {
  const Task task = tasks[get_group_id(0)];
  const int lane = get_local_id(0), d = sizes.head_size;
  if (lane >= task.count) return;
  const int4 head = heads[task.head];
  const int steps = task.first + lane;
#if RELATIVE
  float sums[DIMS];
  clear(sums);
  __global const float* own_relative =
      relative + ((long)task.head * sizes.distances + steps) * DIMS;
#endif
  float sum = 0;
  for (int number = 0; number < sizes.documents; ++number) {
    const Task document = documents[number];
    // One sum of thousands of terms would lose digits.
    float part = 0;
    for (int i = 0; i < document.query_count; ++i) {
      const int query_row = document.query_begin + i;
      const int2 info = rows[query_row];
      const int place = info.x - steps * head.z;
      if (info.y != WINDOWED || place < 0 || place >= document.key_count) continue;
      const int2 seen = window_of(head, info.x, sizes.causal);
      const int own = place / head.z;
      if (own < seen.x || own >= seen.y || kinds[document.key_begin + place] != ORDINARY) continue;
      const long query_at = (long)task.head * sizes.queries + query_row;
      const long key_at = ((long)task.head * sizes.keys + document.key_begin + place) * d;
      __global const float* gradient =
          out_gradient + ((long)query_row * sizes.heads + task.head) * d;
      float scored = 0, given = 0;
      for (int c = 0; c < d; ++c) {
        float q = AT(query, query_at * d + c);
#if RELATIVE
        scored = fma(q + position_bias[task.head * DIMS + c], own_relative[c], scored);
        q += content_bias[task.head * DIMS + c];
#endif
        scored = fma(q, AT(key, key_at + c), scored);
        given = fma(gradient[c], AT(value, key_at + c), given);
      }
      scored *= sizes.scale;
      if (sizes.bias_reach >= 0) {
        scored += bias_at(biases, task.head, sizes.bias_reach, place - info.x);
      }
      const float p = exp(scored - logsumexp[query_at] + sizes.log_weight);
      const float back = p * (given - deltas[query_at]);
      part += back;
#if RELATIVE
      for (int c = 0; c < d; ++c) {
        sums[c] = fma(back, AT(query, query_at * d + c) + position_bias[task.head * DIMS + c], sums[c]);
      }
#endif
    }
    sum += part;
  }
  step_sums[task.list_from + lane] = sum;
#if RELATIVE
  __global float* to = relative_gradient + ((long)task.head * sizes.distances + steps) * d;
  for (int c = 0; c < DIMS; ++c) {
    if (c < d) to[c] = sums[c] * sizes.scale;
  }
#endif
}

#endif
