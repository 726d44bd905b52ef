// Products of rows with a matrix: y [m, n] = x [m, k] times a matrix [k, n] in panels.
//
// A panel is PANEL columns of the matrix, row after row; zeros fill the last one. The build defines
// PANEL, VEC, ROWS (of y, for a work item of `multiply`), DEPTH (rows of panels that a group of
// `multiply_tiled` holds at once), SIDE and EACH (a work group of
// `multiply_tiled` is SIDE x SIDE work items, each with EACH x EACH numbers of y).

#define GLUE_NOW(a, b) a##b
#define GLUE(a, b) GLUE_NOW(a, b)
typedef GLUE(float, VEC) floats;
#define LOAD(from) GLUE(vload, VEC)(0, from)
#define STORE(value, to) GLUE(vstore, VEC)(value, 0, to)
#define TILE (SIDE * EACH)

// Numbers of a tensor of so many rows as a matrix in panels: the tensor is the matrix, or its
// transpose.
__kernel void pack(__global const float* from, __global float* panels, int k, int n,
                   int is_transpose) {
  const long i = get_global_id(0);
  const long all = (long)((n + PANEL - 1) / PANEL) * PANEL * k;
  if (i >= all) return;
  const int inside = i % PANEL;
  const int row = i / PANEL % k;
  const int column = i / ((long)PANEL * k) * PANEL + inside;
  const long at = is_transpose ? (long)column * k + row : (long)row * n + column;
  panels[i] = column < n ? from[at] : 0.0f;
}

void store_row(floats sums, __global float* y, int column, int n) {
  if (column + VEC <= n) {
    STORE(sums, y + column);
    return;
  }
  float part[VEC];
  STORE(sums, part);
  for (int e = 0; e < VEC && column + e < n; ++e) y[column + e] = part[e];
}

// For devices without local memory of their own, such as CPUs: a work item has ROWS rows and two
// vectors of columns in registers. Groups are one work item; those of a panel follow each other, so
// that it stays in the cache.
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void multiply(
    __global const float* x, __global const float* panels, __global float* y, int m, int n, int k) {
  const int blocks = (m + ROWS - 1) / ROWS;
  const int block = get_group_id(0) % blocks;
  const int column = get_group_id(0) / blocks * 2 * VEC;
  const int row = block * ROWS;
  __global const float* from = panels + (long)(column / PANEL) * PANEL * k + column % PANEL;
  __global const float* rows[ROWS];
  floats low[ROWS], high[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    // Rows behind the last one are computed as if they were that, and not stored.
    rows[r] = x + (long)min(row + r, m - 1) * k;
    low[r] = 0;
    high[r] = 0;
  }
  for (int i = 0; i < k; ++i) {
    const floats a = LOAD(from), b = LOAD(from + VEC);
    from += PANEL;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      low[r] = fma((floats)(rows[r][i]), a, low[r]);
      high[r] = fma((floats)(rows[r][i]), b, high[r]);
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    if (row + r >= m) continue;
    __global float* to = y + (long)(row + r) * n;
    store_row(low[r], to, column, n);
    store_row(high[r], to, column + VEC, n);
  }
}

// For GPUs: tiles of x and of panels go through local memory.
__kernel __attribute__((reqd_work_group_size(SIDE * SIDE, 1, 1))) void multiply_tiled(
    __global const float* x, __global const float* panels, __global float* y, int m, int n, int k) {
  __local float rows[DEPTH][TILE + 1];
  __local float columns[DEPTH][TILE];
  const int across = (n + TILE - 1) / TILE;
  const int first_row = get_group_id(0) / across * TILE;
  const int first_column = get_group_id(0) % across * TILE;
  const int lane = get_local_id(0);
  const int padded = (n + PANEL - 1) / PANEL * PANEL;
  // Work items that are neighbours have columns that are neighbours.
  const int own_row = lane / SIDE, own_column = lane % SIDE;
  float sums[EACH][EACH];
  for (int r = 0; r < EACH; ++r) {
    for (int c = 0; c < EACH; ++c) sums[r][c] = 0;
  }
  for (int begin = 0; begin < k; begin += DEPTH) {
    for (int i = lane; i < DEPTH * TILE; i += SIDE * SIDE) {
      const int at = begin + i % DEPTH, row = first_row + i / DEPTH;
      rows[i % DEPTH][i / DEPTH] = at < k && row < m ? x[(long)row * k + at] : 0.0f;
    }
    for (int i = lane; i < DEPTH * TILE; i += SIDE * SIDE) {
      const int at = begin + i / TILE, column = first_column + i % TILE;
      const long place = ((long)(column / PANEL) * k + at) * PANEL + column % PANEL;
      columns[i / TILE][i % TILE] = at < k && column < padded ? panels[place] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < DEPTH; ++i) {
      float a[EACH], b[EACH];
      for (int r = 0; r < EACH; ++r) a[r] = rows[i][own_row + r * SIDE];
      for (int c = 0; c < EACH; ++c) b[c] = columns[i][own_column + c * SIDE];
      for (int r = 0; r < EACH; ++r) {
        for (int c = 0; c < EACH; ++c) sums[r][c] = fma(a[r], b[c], sums[r][c]);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < EACH; ++r) {
    const int row = first_row + own_row + r * SIDE;
    for (int c = 0; c < EACH; ++c) {
      const int column = first_column + own_column + c * SIDE;
      if (row < m && column < n) y[(long)row * n + column] = sums[r][c];
    }
  }
}
