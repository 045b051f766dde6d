"""A ray-traced film: each task of `godwit map` renders one frame of a ball that bounces beside another over a chequered floor.

Shows tasks with binary outputs: each writes a picture (PPM), and the outputs in order are the film, which ffmpeg makes an
MP4 of where it is there. Only + - * / and square roots are used, so that the film has the same bytes wherever it is made.

    python3 tools/examples/flock/film.py [FRAMES [WIDTH]]
"""

import hashlib
import math
import os
import shutil
import subprocess
import sys
import tempfile

from example import check, spread

LIGHT = (-0.48, 0.64, -0.6)  # the direction to the sun, of length 1


def hit(balls, origin, ray):
    """The nearest ball that a ray meets: (distance, ball), or (infinity, None)."""
    best = math.inf, None
    for ball in balls:
        (x, y, z), radius = ball[:2]
        to = x - origin[0], y - origin[1], z - origin[2]
        along = to[0] * ray[0] + to[1] * ray[1] + to[2] * ray[2]
        rest = radius * radius - (to[0] * to[0] + to[1] * to[1] + to[2] * to[2] - along * along)
        if rest > 0 and 1e-6 < along - math.sqrt(rest) < best[0]:
            best = along - math.sqrt(rest), ball
    return best


def color(balls, origin, ray, depth=2):
    """What is seen along a ray: red, green and blue from 0 to 1."""
    distance, ball = hit(balls, origin, ray)
    if ball is None and ray[1] >= 0:
        return 0.5 - 0.3 * ray[1], 0.7 - 0.2 * ray[1], 1.0
    if ball is None:
        distance = -origin[1] / ray[1]
    place = [o + distance * r for o, r in zip(origin, ray)]
    if ball is None:
        normal, own, mirror = (0, 1, 0), ((0.9,) * 3, (0.2,) * 3)[(math.floor(place[0]) + math.floor(place[2])) % 2], 0.0
    else:
        normal, own, mirror = [(p - c) / ball[1] for p, c in zip(place, ball[0])], ball[2], 0.3
    bright = max(0.0, sum(n * s for n, s in zip(normal, LIGHT)))
    if bright > 0 and hit(balls, place, LIGHT)[1]:
        bright = 0.0
    seen = [part * (0.2 + 0.8 * bright) for part in own]
    if mirror and depth:
        turn = 2 * sum(n * r for n, r in zip(normal, ray))
        back = color(balls, place, [r - turn * n for r, n in zip(ray, normal)], depth - 1)
        seen = [(1 - mirror) * one + mirror * two for one, two in zip(seen, back)]
    return seen


def frame(frames, width, number):
    """One picture as PPM."""
    height, time = width * 3 // 4, number / frames
    balls = [((-0.8, 1 + 6 * time * (1 - time), 5), 1, (0.9, 0.2, 0.2)), ((1.2, 0.7, 4 + 2 * time), 0.7, (0.2, 0.4, 0.9))]
    pixels = bytearray()
    for row in range(height):
        for column in range(width):
            x, y = (2 * column + 1 - width) / width, (height - 2 * row - 1) / width
            length = math.sqrt(x * x + y * y + 1)
            seen = color(balls, (0, 1.5, 0), (x / length, y / length, 1 / length))
            pixels += bytes(min(255, int(256 * part)) for part in seen)
    return b"P6 %d %d 255\n" % (width, height) + pixels


def main(frames=16, width=80):
    film = spread(__file__, [frames, width], range(frames))
    folder = tempfile.mkdtemp(prefix="godwit-film-")
    path = os.path.join(folder, "film.ppm")
    with open(path, "wb") as file:
        file.write(film)
    print(f"{frames} frames of {width} by {width * 3 // 4}, sha256 {hashlib.sha256(film).hexdigest()[:16]}, are in {path}.")
    if shutil.which("ffmpeg"):
        subprocess.run(["ffmpeg", "-v", "error", "-f", "image2pipe", "-c:v", "ppm", "-i", path, os.path.join(folder, "film.mp4")],
                       check=True)
        print(f"ffmpeg has made film.mp4 beside it: {os.path.getsize(os.path.join(folder, 'film.mp4'))} bytes.")
    one = frame(frames, width, frames // 2)
    size = len(one)
    check(len(film) == frames * size and film[frames // 2 * size : (frames // 2 + 1) * size] == one,
          "all frames are there, and the middle one is what this process renders")


if __name__ == "__main__":
    if sys.argv[1:2] == ["task"]:
        sys.stdout.buffer.write(frame(*map(int, sys.argv[2:])))
    else:
        main(*map(int, sys.argv[1:]))
