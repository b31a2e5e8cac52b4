"""One M/D/1 queue in SimPy and in Ciw: how long a number of arrivals takes, and the mean response.

usage: peers.py simpy|ciw ARRIVALS

The queue is that of `crates/sim/benches/fleet.rs md1`: 261.8 requests/s can be served, 80 % of that
arrive. Prints CPU seconds (building the model not counted) and the mean response time in seconds.
"""

import random
import sys
import time

SERVICE = 1 / 261.8
RATE = 0.8 * 261.8


def with_simpy(arrivals):
    import simpy

    draw = random.Random(1)
    env = simpy.Environment()
    server = simpy.Resource(env, capacity=1)
    total = 0.0

    def request(env):
        nonlocal total
        came = env.now
        with server.request() as turn:
            yield turn
            yield env.timeout(SERVICE)
        total += env.now - came

    def source(env):
        for _ in range(arrivals):
            yield env.timeout(draw.expovariate(RATE))
            env.process(request(env))

    env.process(source(env))
    start = time.process_time()
    env.run()
    return time.process_time() - start, total / arrivals


def with_ciw(arrivals):
    import ciw

    ciw.seed(1)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=RATE)],
        service_distributions=[ciw.dists.Deterministic(value=SERVICE)],
        number_of_servers=[1],
    )
    simulation = ciw.Simulation(network)
    start = time.process_time()
    simulation.simulate_until_max_customers(arrivals, method="Finish")
    taken = time.process_time() - start
    records = simulation.get_all_records()
    return taken, sum(it.exit_date - it.arrival_date for it in records) / len(records)


if __name__ == "__main__":
    peer, arrivals = sys.argv[1], int(sys.argv[2])
    taken, response = {"simpy": with_simpy, "ciw": with_ciw}[peer](arrivals)
    print(taken, response)
