// What an encoder does with rows beside products and attention.
//
// The build defines LANES (work items of a group that shares a row; a power of two) and ACTIVATION
// (a number of kernels::Activation, −1 for none). Kernels without groups take one number of their
// result for each work item; those behind the last one do nothing.

#define SHARED __kernel __attribute__((reqd_work_group_size(LANES, 1, 1)))

#define GELU 0
#define GELU_TANH 1
#define RELU 2
#define SILU 3
#define TANH 4
#define QUICK_GELU 5
#define MISH 6

float sigmoid(float x) { return 1 / (1 + exp(-x)); }

float activated(float x) {
#if ACTIVATION == GELU
  // The normal distribution by Abramowitz and Stegun 7.1.26, as on the CPU.
  const float t = 1 / fma(fabs(x), 0.3275911f * 0.70710678f, 1.0f);
  const float series = fma(fma(fma(fma(1.061405429f, t, -1.453152027f), t, 1.421413741f), t,
                               -0.284496736f), t, 0.254829592f);
  const float tail = 0.5f * series * t * exp(-0.5f * x * x);
  return x * (x > 0 ? 1 - tail : tail);
#elif ACTIVATION == GELU_TANH
  return 0.5f * x * (1 + tanh(0.79788456f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == RELU
  // A NaN stays one.
  return x < 0 ? 0 : x;
#elif ACTIVATION == SILU
  return x * sigmoid(x);
#elif ACTIVATION == TANH
  return tanh(x);
#elif ACTIVATION == QUICK_GELU
  return x * sigmoid(1.702f * x);
#elif ACTIVATION == MISH
  return x * tanh(x > 20 ? x : log1p(exp(x)));
#else
  return x;
#endif
}

// Sum over the work items of a group, which all get it.
float sum_of_lanes(float x, __local float* parts) {
  const int lane = get_local_id(0);
  parts[lane] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = LANES / 2; step > 0; step /= 2) {
    if (lane < step) parts[lane] += parts[lane + step];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float largest_of_lanes(float x, __local float* parts) {
  const int lane = get_local_id(0);
  parts[lane] = x;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int step = LANES / 2; step > 0; step /= 2) {
    if (lane < step) parts[lane] = fmax(parts[lane], parts[lane + step]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float largest = parts[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}

// scale · word + type + position; tables that are not there have no columns.
__kernel void embed(__global const float* words, __global const float* types,
                    __global const float* positions, __global const int* word_rows,
                    __global const int* type_rows, __global const int* position_rows,
                    __global float* sums, long count, int columns, int has_types,
                    int has_positions, float scale) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const long row = i / columns, column = i % columns;
  float sum = scale * words[(long)word_rows[row] * columns + column];
  if (has_types) sum += types[(long)type_rows[row] * columns + column];
  if (has_positions) sum += positions[(long)position_rows[row] * columns + column];
  sums[i] = sum;
}

// y = activation(x + bias) + residual; x may be y.
__kernel void finish(__global const float* x, __global const float* bias,
                     __global const float* residual, __global float* y, long count, int columns,
                     int has_bias, int has_residual) {
  const long i = get_global_id(0);
  if (i >= count) return;
  float value = x[i];
  if (has_bias) value += bias[i % columns];
  value = activated(value);
  if (has_residual) value += residual[i];
  y[i] = value;
}

// Norm of x + bias + residual, a row for each group.
SHARED void normalise(__global const float* x, __global const float* bias,
                      __global const float* residual, __global const float* weight,
                      __global const float* shift, __global float* y, int columns, int has_bias,
                      int has_residual, int has_shift, int centres, float offset, float epsilon) {
  __local float parts[LANES];
  const long begin = (long)get_group_id(0) * columns;
  const int lane = get_local_id(0);
  float sum = 0;
  // Each work item reads again only what it has written itself.
  for (int c = lane; c < columns; c += LANES) {
    float value = x[begin + c];
    if (has_bias) value += bias[c];
    if (has_residual) value += residual[begin + c];
    y[begin + c] = value;
    sum += value;
  }
  const float all = sum_of_lanes(sum, parts);
  const float mean = centres ? all / columns : 0;
  float square = 0;
  for (int c = lane; c < columns; c += LANES) {
    const float centred = y[begin + c] - mean;
    square = fma(centred, centred, square);
  }
  const float scale = 1 / sqrt(sum_of_lanes(square, parts) / columns + epsilon);
  for (int c = lane; c < columns; c += LANES) {
    const float normal = (y[begin + c] - mean) * scale;
    y[begin + c] = fma(normal, weight[c] + offset, has_shift ? shift[c] : 0.0f);
  }
}

// From columns first … of x [n, stride], with their bias, to heads [H, n, d].
__kernel void split_heads(__global const float* x, __global const float* bias,
                          __global float* heads, long count, int n, int d, int stride, int first,
                          int has_bias) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int e = i % d, row = i / d % n, head = i / d / n;
  const int column = first + head * d + e;
  heads[i] = x[(long)row * stride + column] + (has_bias ? bias[column] : 0.0f);
}

// Head i of the result is head chosen[i] of x [G, n, d]; `size` is n · d.
__kernel void take_heads(__global const float* x, __global const int* chosen, __global float* y,
                         long count, long size) {
  const long i = get_global_id(0);
  if (i < count) y[i] = x[chosen[i / size] * size + i % size];
}

// Row i of the result is row chosen[i] of x.
__kernel void select_rows(__global const float* x, __global const int* chosen, __global float* y,
                          long count, int columns) {
  const long i = get_global_id(0);
  if (i < count) y[i] = x[(long)chosen[i / columns] * columns + i % columns];
}

// activation(a) · b of the halves of x [n, 2w] with their bias; `swaps` activates the second half.
__kernel void gate(__global const float* x, __global const float* bias, __global float* y,
                   long count, int columns, int has_bias, int swaps) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int column = i % columns;
  const long row = i / columns;
  float first = x[row * 2 * columns + column], second = x[row * 2 * columns + columns + column];
  if (has_bias) {
    first += bias[column];
    second += bias[columns + column];
  }
  y[i] = swaps ? first * activated(second) : activated(first) * second;
}

// Pairs of heads [H, n, d] turned by the rows of a table of cosines and sines.
__kernel void turn_heads(__global const float* x, __global const float* table,
                     __global const int* places, __global float* y, long count, int n, int d,
                     int pairs_neighbours) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int half_size = d / 2, t = i % half_size;
  const long row = i / half_size;
  __global const float* turn = table + (long)places[row % n] * d;
  const float cosine = turn[t], sine = turn[half_size + t];
  const int first = pairs_neighbours ? 2 * t : t;
  const int second = pairs_neighbours ? 2 * t + 1 : t + half_size;
  const float a = x[row * d + first], b = x[row * d + second];
  y[row * d + first] = a * cosine - b * sine;
  y[row * d + second] = fma(b, cosine, a * sine);
}

// Rows of each range (begin, end) of x folded into one: 0 sum, 1 mean, 2 sum by the root of their
// number, 3 largest.
__kernel void fold_rows(__global const float* x, __global const int2* ranges, __global float* y,
                        long count, int columns, int how) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int column = i % columns;
  const int2 range = ranges[i / columns];
  float folded = how == 3 ? -INFINITY : 0.0f;
  for (int row = range.x; row < range.y; ++row) {
    const float value = x[(long)row * columns + column];
    if (how != 3) folded += value;
    // A NaN stays the largest.
    if (how == 3) folded = isnan(folded) || value <= folded ? folded : value;
  }
  const float size = range.y - range.x;
  if (how == 1) folded /= size;
  if (how == 2) folded /= sqrt(size);
  y[i] = folded;
}

// Each row divided by its length, a row for each group; zeros stay zeros.
SHARED void unit_rows(__global const float* x, __global float* y, int columns) {
  __local float parts[LANES];
  const long begin = (long)get_group_id(0) * columns;
  float square = 0;
  for (int c = get_local_id(0); c < columns; c += LANES) {
    square = fma(x[begin + c], x[begin + c], square);
  }
  const float length = sqrt(sum_of_lanes(square, parts));
  for (int c = get_local_id(0); c < columns; c += LANES) {
    y[begin + c] = length > 0 ? x[begin + c] / length : x[begin + c];
  }
}

// x − amount, in the rows that are marked or in all of them.
__kernel void lower_rows(__global const float* x, __global const int* marks, __global float* y,
                         long count, int columns, int has_marks, float amount) {
  const long i = get_global_id(0);
  if (i < count) y[i] = x[i] - (!has_marks || marks[i / columns] ? amount : 0.0f);
}

// One softmax over two parts of the keys: results [n, H · d] and logarithms of denominators [H, n].
__kernel void merge(__global const float* a, __global const float* a_log, __global const float* b,
                    __global const float* b_log, __global float* y, __global float* y_log,
                    long count, int n, int heads, int d) {
  const long i = get_global_id(0);
  if (i >= count) return;
  const int head = i / d % heads;
  const long at = head * (long)n + i / d / heads;
  const float largest = fmax(a_log[at], b_log[at]);
  // A maximum loses a NaN, which then shows in the weight.
  const int is_empty = a_log[at] == -INFINITY && b_log[at] == -INFINITY;
  const float base = largest == -INFINITY ? 0.0f : largest;
  const float left = exp(a_log[at] - base);
  const float right = exp(b_log[at] - base);
  const float all = left + right;
  // What a part without keys holds is not looked at.
  const float sum = (left == 0 ? 0.0f : left * a[i]) + (right == 0 ? 0.0f : right * b[i]);
  y[i] = is_empty ? 0.0f : sum / all;
  if (i % d == 0) y_log[at] = is_empty ? -INFINITY : largest + log(all);
}

// Global rows, which have projections of their own. g rows; a row of queries, scores and mixtures
// for each head and each of them, head after head.

// Queries of rows of x [n, width]: number `o` of global row `i` for group i · width + o.
SHARED void project_rows(__global const float* x, __global const int* rows,
                         __global const float* weight, __global const float* bias,
                         __global float* queries, int width, int first) {
  __local float parts[LANES];
  const int i = get_group_id(0) / width, o = get_group_id(0) % width;
  __global const float* from = x + (long)rows[first + i] * width;
  __global const float* by = weight + (long)o * width;
  float sum = 0;
  for (int c = get_local_id(0); c < width; c += LANES) sum = fma(from[c], by[c], sum);
  const float all = sum_of_lanes(sum, parts);
  if (get_local_id(0) == 0) queries[(long)i * width + o] = all + bias[o];
}

// What rows of x are multiplied with for scores: scale · queries of a head times its keys' weights.
__kernel void spread_queries(__global const float* queries, __global const float* key_weight,
                             __global float* spread, long count, int g, int d, int width,
                             float scale) {
  const long at = get_global_id(0);
  if (at >= count) return;
  const int c = at % width, i = at / width % g, head = at / width / g;
  float sum = 0;
  for (int e = 0; e < d; ++e) {
    sum = fma(queries[(long)i * width + head * d + e], key_weight[(long)(head * d + e) * width + c],
              sum);
  }
  spread[at] = scale * sum;
}

// Probabilities [rows, n] from scores [n, rows], a row for each group; masked keys have none.
SHARED void softmax_columns(__global const float* scores, __global const uchar* mask,
                            __global float* probabilities, int n, int rows, int has_mask,
                            int key_begin) {
  __local float parts[LANES];
  const int row = get_group_id(0), lane = get_local_id(0);
  __global float* to = probabilities + (long)row * n;
  float largest = -INFINITY;
  for (int t = lane; t < n; t += LANES) {
    const int seen = !has_mask || mask[key_begin + t] != 0;
    const float score = seen ? scores[(long)t * rows + row] : -INFINITY;
    to[t] = score;
    largest = fmax(largest, score);
  }
  const float highest = largest_of_lanes(largest, parts);
  // Scores that are all NaN leave no maximum.
  const float base = highest == -INFINITY ? 0.0f : highest;
  float sum = 0;
  for (int t = lane; t < n; t += LANES) {
    const float weight = to[t] == -INFINITY ? 0.0f : exp(to[t] - base);
    to[t] = weight;
    sum += weight;
  }
  const float all = sum_of_lanes(sum, parts);
  const float inverse = all == 0 ? 0.0f : 1 / all;
  for (int t = lane; t < n; t += LANES) to[t] *= inverse;
}

// Results of global rows from mixtures of rows of x [H · g, width]: number `o` of row `i` for group
// i · width + o.
SHARED void project_mixtures(__global const float* mixtures, __global const int* rows,
                             __global const float* weight, __global const float* bias,
                             __global float* attended, int g, int d, int width, int first) {
  __local float parts[LANES];
  const int i = get_group_id(0) / width, o = get_group_id(0) % width;
  __global const float* from = mixtures + ((long)(o / d) * g + i) * width;
  __global const float* by = weight + (long)o * width;
  float sum = 0;
  for (int c = get_local_id(0); c < width; c += LANES) sum = fma(from[c], by[c], sum);
  const float all = sum_of_lanes(sum, parts);
  if (get_local_id(0) == 0) attended[(long)rows[first + i] * width + o] = all + bias[o];
}
