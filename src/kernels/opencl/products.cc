#include "kernels/opencl/products.h"

#include <cstdlib>
#include <string_view>

#include "core/error.h"
#include "kernels/attention/spec.h"
#include "kernels/opencl/clblast.h"
#include "kernels/opencl/kernel_texts.h"
#include "kernels/opencl/pool.h"

namespace longformer::kernels::opencl {
namespace {

constexpr Index kPanel = 32;
/// Rows of panels that a group of the tiled kernel holds at once.
constexpr Index kDepth = 16;

/// Sizes that products.cl is built for.
struct Build {
  Index vector = 4, rows = 6, side = 16, each = 4;

  std::string options() const {
    return fmt::format("-DPANEL={} -DDEPTH={} -DVEC={} -DROWS={} -DSIDE={} -DEACH={}", kPanel,
                       kDepth, vector, rows, side, each);
  }
};

/// So many sums fit into the registers of a CPU with vectors of this width.
Build build_for(const DeviceFacts& facts) {
  Build build;
  build.vector = facts.is_gpu || facts.floats < 8 ? 4 : facts.floats < 16 ? 8 : 16;
  build.rows = build.vector == 16 ? 12 : 6;
  // Tiles of both factors, as products.cl has them.
  const auto local = [&] { return kDepth * (2 * build.side * build.each + 1) * Index{4}; };
  while (build.side > 1 && (static_cast<std::size_t>(build.side * build.side) > facts.work_group ||
                            static_cast<std::size_t>(local()) > facts.local_memory)) {
    build.side /= 2;
  }
  return build;
}

/// A driver may have less room for the tiled kernel than the device has for others.
struct TiledProgram {
  Program& program;
  Build build;
};
TiledProgram tiled_program(Device& device) {
  Build build = build_for(device.facts());
  while (true) {
    Program& program = device.program(kProductsSource, build.options());
    const std::size_t most = program.largest_group("multiply_tiled", device);
    if (build.side == 1 || most >= static_cast<std::size_t>(build.side * build.side)) {
      return {program, build};
    }
    build.side /= 2;
  }
}

std::int32_t narrow(Index value) { return static_cast<std::int32_t>(value); }

std::size_t count(Index value) { return static_cast<std::size_t>(value); }

Matrix matrix_of(const Tensor& numbers, Index in, Index out, bool is_transpose) {
  Device& device = device_of(numbers);
  const Products products = products_of(device.facts());
  Matrix matrix = {.numbers = numbers, .in = in, .out = out, .is_transpose = is_transpose};
  if (products == Products::clblast) return matrix;
  const Index padded = divide_up(out, kPanel) * kPanel;
  matrix.numbers = device.pool().tensor({padded, in});
  Program& program = device.program(kProductsSource, build_for(device.facts()).options());
  run(device, program, "pack", device.groups_for(padded * in), numbers, matrix.numbers, narrow(in),
      narrow(out), std::int32_t{is_transpose});
  return matrix;
}

void multiply_by_clblast(Device& device, const Tensor& x, const Matrix& matrix, Tensor& y) {
  Queue queue = device.queue();
  const std::size_t m = count(x.rows()), n = count(matrix.out), k = count(matrix.in);
  const int status = clblast().sgemm(
      kRowMajor, kAsItIs, matrix.is_transpose ? kTransposed : kAsItIs, m, n, k, 1.0f,
      block_of(x).memory(), 0, k, block_of(matrix.numbers).memory(), 0, matrix.is_transpose ? k : n,
      0.0f, block_of(y).memory(), 0, n, &queue, nullptr);
  device.expect(status, "multiply by CLBlast");
}

}  // namespace

Products products_of(const DeviceFacts& facts) {
  const char* named = std::getenv("LONGFORMER_OPENCL_PRODUCTS");
  const std::string_view name = named == nullptr ? "" : named;
  if (name == "vectors") return Products::vectors;
  if (name == "tiles") return Products::tiles;
  if (name == "clblast") {
    clblast();
    return Products::clblast;
  }
  require(name.empty(),
          "LONGFORMER_OPENCL_PRODUCTS: expected clblast, vectors or tiles, found \"{}\"", name);
  if (facts.is_cpu) return Products::vectors;
  return has_clblast() ? Products::clblast : Products::tiles;
}

Matrix matrix_of_weights(const Tensor& weights) {
  return matrix_of(weights, weights.columns(), weights.rows(), true);
}

Matrix matrix_of_rows(const Tensor& rows) {
  return matrix_of(rows, rows.rows(), rows.columns(), false);
}

Tensor multiply(const Tensor& given, const Matrix& matrix) {
  const Tensor x = whole(given);
  Device& device = device_of(x);
  const Index m = x.rows(), n = matrix.out;
  Tensor y = device.pool().tensor({m, n});
  if (m == 0 || n == 0) return y;
  const std::int32_t sizes[] = {narrow(m), narrow(n), narrow(matrix.in)};
  switch (products_of(device.facts())) {
    case Products::clblast:
      multiply_by_clblast(device, x, matrix, y);
      break;
    case Products::vectors: {
      const Build build = build_for(device.facts());
      Program& program = device.program(kProductsSource, build.options());
      const Index groups = divide_up(m, build.rows) * divide_up(n, 2 * build.vector);
      run(device, program, "multiply", {count(groups), 1}, x, matrix.numbers, y, sizes[0], sizes[1],
          sizes[2]);
      break;
    }
    case Products::tiles: {
      const auto& [program, build] = tiled_program(device);
      const Index tile = build.side * build.each;
      const Index groups = divide_up(m, tile) * divide_up(n, tile);
      run(device, program, "multiply_tiled", {count(groups), count(build.side * build.side)}, x,
          matrix.numbers, y, sizes[0], sizes[1], sizes[2]);
      break;
    }
  }
  return y;
}

}  // namespace longformer::kernels::opencl
