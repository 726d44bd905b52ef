#include "tasks/coreference/assignment.h"

#include <cassert>
#include <limits>

namespace longformer::tasks {
namespace {

/// Finds a column for every row; rows ≤ columns. Rows and columns are counted from 1, 0 is none.
class Assignment {
 public:
  Assignment(std::span<const double> gains, Index rows, Index columns)
      : gains_(gains),
        columns_(columns),
        row_price_(at(rows + 1), 0),
        column_price_(at(columns + 1), 0),
        row_of_(at(columns + 1), 0) {
    for (Index row = 1; row <= rows; ++row) add(row);
  }

  const std::vector<Index>& row_of_column() const { return row_of_; }

 private:
  double cost(Index row, Index column) const {
    return -gains_[at((row - 1) * columns_ + column - 1)] - row_price_[at(row)] -
           column_price_[at(column)];
  }

  /// Gives the row a column along the shortest path of exchanges.
  void add(Index row) {
    std::vector<double> distance(at(columns_ + 1), std::numeric_limits<double>::infinity());
    std::vector<Index> before(at(columns_ + 1), 0);
    std::vector<bool> done(at(columns_ + 1), false);
    row_of_[0] = row;
    Index column = 0;
    do {
      done[at(column)] = true;
      double least = std::numeric_limits<double>::infinity();
      Index next = 0;
      for (Index c = 1; c <= columns_; ++c) {
        if (done[at(c)]) continue;
        const double length = cost(row_of_[at(column)], c);
        if (length < distance[at(c)]) {
          distance[at(c)] = length;
          before[at(c)] = column;
        }
        if (distance[at(c)] < least) {
          least = distance[at(c)];
          next = c;
        }
      }
      for (Index c = 0; c <= columns_; ++c) {
        if (done[at(c)]) {
          row_price_[at(row_of_[at(c)])] += least;
          column_price_[at(c)] -= least;
        } else {
          distance[at(c)] -= least;
        }
      }
      column = next;
    } while (row_of_[at(column)] != 0);
    for (; column != 0; column = before[at(column)]) {
      row_of_[at(column)] = row_of_[at(before[at(column)])];
    }
  }

  std::span<const double> gains_;
  Index columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<Index> row_of_;
};

}  // namespace

std::vector<Index> best_assignment(std::span<const double> gains, Index rows, Index columns) {
  assert(std::ssize(gains) == rows * columns);
  std::vector<Index> columns_of_rows(at(rows), -1);
  if (rows <= columns) {
    const Assignment assignment(gains, rows, columns);
    for (Index c = 1; c <= columns; ++c) {
      const Index row = assignment.row_of_column()[at(c)];
      if (row > 0) columns_of_rows[at(row - 1)] = c - 1;
    }
    return columns_of_rows;
  }
  std::vector<double> turned;
  for (Index c = 0; c < columns; ++c) {
    for (Index r = 0; r < rows; ++r) turned.push_back(gains[at(r * columns + c)]);
  }
  const Assignment assignment(turned, columns, rows);
  for (Index r = 1; r <= rows; ++r)
    columns_of_rows[at(r - 1)] = assignment.row_of_column()[at(r)] - 1;
  return columns_of_rows;
}

}  // namespace longformer::tasks
