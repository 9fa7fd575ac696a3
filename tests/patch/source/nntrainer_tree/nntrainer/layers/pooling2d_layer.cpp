#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

namespace trainer {

struct Map {
  int rows, columns;
  std::vector<float> values;
  Map(int r, int c) : rows(r), columns(c), values(r * c, 0.0f) {}
  float& at(int r, int c) { return values[r * columns + c]; }
};

class Pooling2DLayer {
 public:
  std::array<unsigned int, 4> padding;  // top, bottom, left, right
  std::array<unsigned int, 2> pool_size;
  std::array<unsigned int, 2> stride;

  void calcDerivative(Map& incoming, Map& result);
};

void Pooling2DLayer::calcDerivative(Map& incoming, Map& result) {
  int rows = result.rows;
  int columns = result.columns;
  auto above = padding[0];
  auto before = padding[2];
  unsigned int tall = pool_size[0];
  unsigned int wide = pool_size[1];

  auto average = [&]() {
    int last_row = rows - tall + above;
    int last_column = columns - wide + before;
    int J = 0;
    for (int j = -(int)above; j <= last_row; j += stride[0]) {
      int K = 0;
      for (int k = -(int)before; k <= last_column; k += stride[1]) {
        int top = std::max(j, 0), bottom = std::min(j + (int)tall, rows);
        int left = std::max(k, 0), right = std::min(k + (int)wide, columns);
        float share = incoming.at(J, K) / ((bottom - top) * (right - left));
        for (int r = top; r < bottom; ++r) {
          for (int c = left; c < right; ++c) {
            result.at(r, c) += share;
          }
        }
        K++;
      }
      J++;
    }
  };
  average();
}

}  // namespace trainer
